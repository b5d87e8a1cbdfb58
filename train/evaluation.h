// Evaluation: the mean loss and the accuracy over a data set, in evaluation mode, nothing recorded.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/data/dataset.h"
#include "tandem/train/ranks.h"
#include "tandem/train/task.h"

namespace tandem::train {

struct Evaluation {
  bool has_items = true;  ///< false: there was nothing to predict, and the rest is 0
  double loss = 0;        ///< cross-entropy: the sum of its terms, each a mean over all its items
  double accuracy = 0;    ///< share of the first term's items whose largest logit is the target's
  std::vector<std::pair<std::string, double>> terms;
};

struct EvaluationOptions {
  std::int64_t batch_size = 64;  ///< per rank
  int data_threads = 1;
};

/// By name, [samples, ...] each.
using Outputs = std::vector<std::pair<std::string, core::Tensor>>;

/// Collective: each rank evaluates its share, and all get the same result. Every sample counts once. The model's mode
/// is as before afterwards. `outputs`, where given, gets the model's outputs in the data set's order, on all ranks, in
/// the memory of each. `is_stopped` is asked before each batch; none if it said so to any of the ranks. Throws Error if
/// the loss is not finite.
std::optional<Evaluation> evaluate(const EvaluationOptions& options, Ranks& ranks, Task& task,
                                   const std::shared_ptr<const data::Dataset>& dataset,
                                   const std::function<bool()>& is_stopped, Outputs* outputs = nullptr);

}  // namespace tandem::train
