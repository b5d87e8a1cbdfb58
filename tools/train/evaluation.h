// Evaluation: the mean loss and the accuracy over a data set, in evaluation mode, nothing recorded.
#pragma once

#include <memory>
#include <optional>

#include "tandem/data/dataset.h"
#include "tandem/nn/module.h"
#include "tools/train/ranks.h"
#include "tools/train/stop_signal.h"

namespace tandem::train {

struct Evaluation {
  double loss = 0;      ///< cross-entropy, the mean over all samples
  double accuracy = 0;  ///< share of the samples whose largest output is the target's
};

/// Collective: each rank evaluates its share, and all get the same result. Every sample counts once. The model's mode
/// is as before afterwards. `outputs`, where given, becomes [N, classes] in the data set's order, on all ranks. None
/// where a signal came meanwhile, to any of them. Throws Error where the loss is not finite.
std::optional<Evaluation> evaluate(Ranks& ranks, nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                                   std::int64_t batch_size, const StopSignal& stop, core::Tensor* outputs = nullptr);

}  // namespace tandem::train
