#include "tandem/core/ops/segment.h"

namespace tandem::core {
namespace {

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return fmt::format("{} {} with strides {} on {}", name(tensor.dtype()), tensor.shape().str(), tensor.strides().str(),
                     tensor.device().str());
}

bool fits(const Tensor& tensor, const Tensor& parameter) {
  if (!tensor.defined() || tensor.dtype() != parameter.dtype() || tensor.device() != parameter.device()) return false;
  const bool is_alike = tensor.shape() == parameter.shape() && tensor.strides() == parameter.strides();
  return is_alike || tensor.has_layout_of(parameter);  // the first is quick, and nearly always so
}

}  // namespace

void check_segment(const char* op, std::size_t number, const Segment& segment, std::size_t states, Device device) {
  const Tensor& parameter = segment.parameter;
  if (!parameter.defined() || (parameter.dtype() != DType::float32 && parameter.dtype() != DType::float64) ||
      !parameter.is_dense())
    fail("{}: segment {}: the parameter is {}, must be dense float32 or float64", op, number, describe(parameter));
  if (parameter.device() != device)
    fail("{}: segment {}: the parameter is {}, segment 0 is on {}", op, number, describe(parameter), device.str());
  if (!fits(segment.gradient, parameter))
    fail("{}: segment {}: the gradient is {}, the parameter {}", op, number, describe(segment.gradient),
         describe(parameter));
  for (std::size_t k = 0; k < segment.state.size(); ++k) {
    const Tensor& state = segment.state[k];
    if ((k < states || state.defined()) && !fits(state, parameter))
      fail("{}: segment {}: state {} is {}, the parameter {}", op, number, k, describe(state), describe(parameter));
  }
}

}  // namespace tandem::core
