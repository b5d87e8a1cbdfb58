#include "tandem/core/ops/random_fill.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "tandem/core/parallel.h"
#include "tandem/core/philox.h"

namespace tandem::core::kernels {
namespace {

// 53 random bits of two words, in [0, 1).
double unit_double(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 21) ^ (low >> 11)) * 0x1p-53;
}

template <class T>
T next_below(T value) {
  return std::nextafter(value, -std::numeric_limits<T>::infinity());
}
bfloat16 next_below(bfloat16 value) {
  const bool negative = value.bits >> 15;
  if (static_cast<std::uint16_t>(value.bits << 1) == 0) {
    value.bits = 0x8001;  // below zero: the negative number nearest to it
  } else {
    value.bits = static_cast<std::uint16_t>(negative ? value.bits + 1 : value.bits - 1);
  }
  return value;
}

// The largest T below `high`, but not below `low`.
template <class T>
T last_below(double low, double high) {
  using C = compute_t<T>;
  T value = static_cast<T>(static_cast<C>(high));
  while (static_cast<double>(static_cast<C>(value)) >= high) value = next_below(value);
  return static_cast<double>(static_cast<C>(value)) < low ? static_cast<T>(static_cast<C>(low)) : value;
}

// f(i, word0, word1) for [0, n), in parallel: a number depends on its position alone.
template <class F>
void for_each_pair_in_parallel(std::int64_t n, const PhiloxStream& stream, F&& f) {
  constexpr std::int64_t kChunk = 1 << 13;
  parallel_chunks(n, kChunk, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    philox::for_each_pair(begin, end, stream, f);
  });
}

}  // namespace

template <>
void fill_uniform<DeviceType::cpu>(Tensor& out, double low, double high, const PhiloxStream& stream) {
  visit_floating("fill_uniform", out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    T* data = out.mutable_data<T>();
    const T last = last_below<T>(low, high);
    for_each_pair_in_parallel(out.numel(), stream, [&](std::int64_t i, std::uint32_t a, std::uint32_t b) {
      const double unit = sizeof(C) == 8 ? unit_double(a, b) : static_cast<double>(a >> 8) * 0x1p-24;
      const T value = static_cast<T>(static_cast<C>(low + (high - low) * unit));
      data[i] = static_cast<C>(value) < high ? value : last;  // rounding may have given `high` itself
    });
  });
}

template <>
void fill_normal<DeviceType::cpu>(Tensor& out, double mean, double deviation, const PhiloxStream& stream) {
  visit_floating("fill_normal", out.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    T* data = out.mutable_data<T>();
    for_each_pair_in_parallel(out.numel(), stream, [&](std::int64_t i, std::uint32_t a, std::uint32_t b) {
      const double radius = std::sqrt(-2 * std::log((a + 0.5) * 0x1p-32));
      const double normal = radius * std::cos(2 * std::numbers::pi * (b * 0x1p-32));
      data[i] = static_cast<T>(static_cast<C>(mean + deviation * normal));
    });
  });
}

}  // namespace tandem::core::kernels
