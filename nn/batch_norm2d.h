// Batch normalisation over channels. Source: Ioffe and Szegedy, "Batch normalization", 2015.
#pragma once

#include "tandem/nn/module.h"

namespace tandem::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the newest batch in the running statistics
  bool affine = true;     ///< learn a scale and a shift per channel
  /// Less memory for a little time: what forward() and forward_relu() give is not kept for the backward of a
  /// convolution or Linear that takes it, but computed again there. Same bits.
  bool recompute = false;
};

/// While one lives, batch norm of this thread takes batches of one value per channel. For the last batch of an epoch,
/// or a rank's share of it, whose size nobody chose; a network that is trained on such batches throughout learns
/// nothing. Nests.
class PartialBatchGuard {
 public:
  PartialBatchGuard();
  ~PartialBatchGuard();
  PartialBatchGuard(const PartialBatchGuard&) = delete;
  PartialBatchGuard& operator=(const PartialBatchGuard&) = delete;
};

/// weight, bias [C]; buffers running_mean, running_var [C], num_batches_tracked (int64 scalar), as PyTorch's.
class BatchNorm2d final : public Module {
 public:
  explicit BatchNorm2d(std::int64_t channels, BatchNormOptions options = {});
  /// [N, C, H, W] (or [N, C]). In training with the batch's statistics, which move the running ones; in evaluation with
  /// those. In training one value per channel is an Error, but under a PartialBatchGuard: its output is the bias.
  /// Neither one value nor none, which a rank may have, moves the running statistics.
  Variable forward(const Variable& x) override { return normalize(x, {.recompute = options_.recompute}); }
  // With what follows it in the same pass over memory; `residual` has the shape and dtype of x.
  /// relu(forward(x))
  Variable forward_relu(const Variable& x) { return normalize(x, {.relu = true, .recompute = options_.recompute}); }
  /// forward(x) + residual
  Variable forward_add(const Variable& x, const Variable& residual) { return normalize(x, {.residual = residual}); }
  /// relu(forward(x) + residual)
  Variable forward_add_relu(const Variable& x, const Variable& residual) {
    return normalize(x, {.relu = true, .residual = residual});
  }

  /// From now on training, too, normalises with the running statistics and leaves them as they are: for a part of a
  /// network that is not trained.
  void freeze_statistics() { has_frozen_statistics_ = true; }

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }

 private:
  Variable normalize(const Variable& x, const autograd::BatchNormFusion& fusion);
  void update_running_statistics(const autograd::BatchStatistics& batch, std::int64_t count);

  BatchNormOptions options_;
  Variable weight_, bias_;
  Tensor running_mean_, running_var_, num_batches_tracked_;
  bool has_frozen_statistics_ = false;
};

}  // namespace tandem::nn
