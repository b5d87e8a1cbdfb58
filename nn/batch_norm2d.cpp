#include "tandem/nn/batch_norm2d.h"

#include <algorithm>

#include "tandem/core/ops/binary.h"
#include "tandem/core/ops/unary.h"

namespace tandem::nn {
namespace {

thread_local int partial_batch_guards = 0;

void check_values(const Variable& x, std::int64_t per_channel) {
  if (per_channel == 1 && partial_batch_guards == 0)
    core::fail(
        "batch norm: training needs more than one value per channel, got x {}: use larger batches or larger "
        "images",
        x.data().shape().str());
}

}  // namespace

PartialBatchGuard::PartialBatchGuard() { ++partial_batch_guards; }
PartialBatchGuard::~PartialBatchGuard() { --partial_batch_guards; }

BatchNorm2d::BatchNorm2d(std::int64_t channels, BatchNormOptions options)
    : options_(options),
      running_mean_(Tensor::zeros({channels})),
      running_var_(Tensor::full({channels}, 1)),
      num_batches_tracked_(Tensor::zeros({}, {.dtype = DType::int64})) {
  if (options.affine) {
    weight_ = register_parameter("weight", Tensor::full({channels}, 1));
    bias_ = register_parameter("bias", Tensor::zeros({channels}));
  }
  register_buffer("running_mean", running_mean_);
  register_buffer("running_var", running_var_);
  register_buffer("num_batches_tracked", num_batches_tracked_);
}

Variable BatchNorm2d::normalize(const Variable& x, const autograd::BatchNormFusion& fusion) {
  if (!is_training() || has_frozen_statistics_)
    return autograd::batch_norm_inference(x, weight_, bias_, running_mean_, running_var_, options_.eps, fusion);
  autograd::BatchStatistics batch;
  Variable y = autograd::batch_norm_training(x, weight_, bias_, options_.eps, &batch, fusion);
  const std::int64_t values = x.data().numel() / std::max<std::int64_t>(1, x.size(1));
  check_values(x, values);
  if (values > 1) update_running_statistics(batch, values);
  return y;
}

// running = (1 - momentum) running + momentum batch, with the unbiased variance (divided by count - 1).
void BatchNorm2d::update_running_statistics(const autograd::BatchStatistics& batch, std::int64_t count) {
  const auto move = [&](Tensor& running, const Tensor& newest, double factor) {
    core::scale(running, 1 - options_.momentum);
    core::accumulate(running, core::mul_scalar(newest.to(running.dtype()), options_.momentum * factor));
  };
  const auto n = static_cast<double>(count);
  move(running_mean_, batch.mean, 1);
  move(running_var_, batch.variance, n / (n - 1));
  core::accumulate(num_batches_tracked_, core::Tensor::scalar(1, core::DType::int64, num_batches_tracked_.device()));
}

}  // namespace tandem::nn
