#include "tandem/core/dtype.h"

namespace tandem::core {

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::bfloat16: return "bfloat16";
    case DType::float16: return "float16";
    case DType::int64: return "int64";
    case DType::int32: return "int32";
    case DType::uint8: return "uint8";
    case DType::boolean: return "bool";
  }
  return "?";
}

std::size_t item_size(DType dtype) {
  return visit_all(dtype, []<class T>() { return sizeof(T); });
}

bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16 || dtype == DType::float16;
}

}  // namespace tandem::core
