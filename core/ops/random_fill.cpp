#include "tandem/core/ops/random_fill.h"

#include <cmath>

#include "tandem/core/ops/computable.h"
#include "tandem/core/ops/dispatch.h"
#include "tandem/core/philox.h"

namespace tandem::core {
namespace {

void check_output(const char* op, const Tensor& out) {
  check_floating(op, out);
  if (!out.is_contiguous())
    fail("{}: needs a contiguous tensor, got shape {} with strides {}", op, out.shape().str(), out.strides().str());
  philox::check_pairs(op, out.numel());
}

}  // namespace

void fill_uniform(Tensor& out, double low, double high, const PhiloxStream& stream) {
  check_output("fill_uniform", out);
  if (!std::isfinite(low) || !std::isfinite(high) || low > high)
    fail("fill_uniform: [{}, {}) is not a finite range", low, high);
  if (out.numel() > 0) TANDEM_DISPATCH("fill_uniform", out.device(), fill_uniform, out, low, high, stream);
}

void fill_normal(Tensor& out, double mean, double deviation, const PhiloxStream& stream) {
  check_output("fill_normal", out);
  if (out.numel() > 0) TANDEM_DISPATCH("fill_normal", out.device(), fill_normal, out, mean, deviation, stream);
}

}  // namespace tandem::core
