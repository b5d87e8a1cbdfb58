// Element types, and the step from a run-time DType to a compile-time C++ type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tandem/core/error.h"
#include "tandem/core/half.h"

namespace tandem::core {

enum class DType : std::uint8_t { float32, float64, bfloat16, float16, int64, int32, uint8, boolean };

/// PyTorch's name without the prefix: "float32", ..., "bool".
std::string_view name(DType dtype);
/// Bytes of one element.
std::size_t item_size(DType dtype);
bool is_floating(DType dtype);

// clang-format off
template <class T>
struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr DType value = DType::float32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::float64; };
template <> struct DTypeOf<bfloat16> { static constexpr DType value = DType::bfloat16; };
template <> struct DTypeOf<float16> { static constexpr DType value = DType::float16; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = DType::int64; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::int32; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::uint8; };
template <> struct DTypeOf<bool> { static constexpr DType value = DType::boolean; };
// clang-format on
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// The type in which arithmetic on T is done: float for the 16-bit types, T itself otherwise.
// clang-format off
template <class T> struct ComputeType { using type = T; };
template <> struct ComputeType<bfloat16> { using type = float; };
template <> struct ComputeType<float16> { using type = float; };
// clang-format on
template <class T>
using compute_t = typename ComputeType<T>::type;

/// Calls `f.template operator()<T>()` with the C++ type of `dtype`, all eight of them.
template <class F>
decltype(auto) visit_all(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::bfloat16: return f.template operator()<bfloat16>();
    case DType::float16: return f.template operator()<float16>();
    case DType::int64: return f.template operator()<std::int64_t>();
    case DType::int32: return f.template operator()<std::int32_t>();
    case DType::uint8: return f.template operator()<std::uint8_t>();
    case DType::boolean: break;
  }
  return f.template operator()<bool>();
}

/// The same for the floating types that have kernels on CPU (float16 is storage only there): float32, float64,
/// bfloat16.
template <class F>
decltype(auto) visit_floating(std::string_view op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::bfloat16: return f.template operator()<bfloat16>();
    default: fail("{}: needs float32, float64 or bfloat16, got {}", op, name(dtype));
  }
}

}  // namespace tandem::core
