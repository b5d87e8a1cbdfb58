#include "tandem/core/ops/computable.h"

#include <fmt/core.h>

#include <string>

namespace tandem::core {
namespace {

constexpr DType kFloating[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16};

// "float32, float64 or bfloat16"
std::string floating_types(Device device) {
  std::string last, text;
  for (const DType dtype : kFloating) {
    if (!is_computable(dtype, device)) continue;
    if (!last.empty()) text += text.empty() ? last : ", " + last;
    last = name(dtype);
  }
  return text + " or " + last;
}

}  // namespace

bool is_computable(DType dtype, Device device) {
  switch (dtype) {
    case DType::boolean:
    case DType::uint8: return false;
    case DType::float16: return device.type == DeviceType::cuda;
    default: return true;
  }
}

void check_floating(const char* op, const Tensor& x, std::int64_t number) {
  if (x.defined() && is_floating(x.dtype()) && is_computable(x.dtype(), x.device())) return;
  const std::string which = number < 0 ? "the tensor" : fmt::format("tensor {}", number);
  if (!x.defined()) fail("{}: {} is undefined", op, which);
  fail("{}: needs {}, {} {} {}", op, floating_types(x.device()), number < 0 ? "got" : which + " is", name(x.dtype()),
       x.shape().str());
}

}  // namespace tandem::core
