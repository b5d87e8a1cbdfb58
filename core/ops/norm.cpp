#include "tandem/core/ops/norm.h"

#include <algorithm>
#include <vector>

#include "tandem/core/ops/broadcast.h"
#include "tandem/core/ops/computable.h"
#include "tandem/core/ops/dispatch.h"

namespace tandem::core {

// Read and written.
static double moved_bytes(std::span<Tensor> scaled) { return 2 * moved_bytes(std::span<const Tensor>(scaled)); }

namespace {

Device check_list(const char* op, std::span<const Tensor> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    check_floating(op, x, static_cast<std::int64_t>(i));
    if (x.device() != tensors[0].device())
      fail("{}: tensor {} is on {}, tensor 0 on {}", op, i, x.device().str(), tensors[0].device().str());
  }
  return tensors.empty() ? kCpu : tensors[0].device();
}

}  // namespace

Tensor sum_of_squares(std::span<const Tensor> tensors) {
  constexpr const char* kOp = "sum_of_squares";
  const Device device = check_list(kOp, tensors);
  std::vector<Tensor> dense;  // made only if one is not
  const auto is_dense = [](const Tensor& x) { return x.is_dense(); };
  if (!std::all_of(tensors.begin(), tensors.end(), is_dense)) {
    for (const Tensor& x : tensors) dense.push_back(x.is_dense() ? x : x.clone());
    tensors = dense;
  }
  Tensor sum = Tensor::empty({}, {.dtype = DType::float64, .device = device});
  TANDEM_DISPATCH(kOp, device, sum_of_squares, tensors, sum);
  return sum;
}

void scale(std::span<Tensor> tensors, const Tensor& factor) {
  constexpr const char* kOp = "scale";
  const Device device = check_list(kOp, tensors);
  for (const Tensor& x : tensors) check_no_repeats(kOp, x);
  if (!factor.defined() || factor.dtype() != DType::float64 || factor.rank() != 0)
    fail("{}: the factor must be float64 [], got {}", kOp,
         factor.defined() ? fmt::format("{} {}", name(factor.dtype()), factor.shape().str()) : "none");
  if (tensors.empty()) return;
  if (factor.device() != device)
    fail("{}: the factor is on {}, tensor 0 on {}", kOp, factor.device().str(), device.str());
  TANDEM_DISPATCH(kOp, device, scale, tensors, factor);
}

}  // namespace tandem::core
