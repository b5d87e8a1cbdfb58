// What is trained: a model, and the loss that fits its data. The training loop knows no more of either.
//
// A loss is a sum of terms, each a mean over items: rows of images, or predicted tokens and sentence pairs. A window's
// items are spread unevenly over micro-steps and ranks, so a task gives sums, and the loop divides by the number of
// items of all of them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tandem/data/dataset.h"
#include "tandem/nn/module.h"

namespace tandem::train {

/// Of one batch, in evaluation mode.
struct BatchEvaluation {
  std::vector<double> sums;   ///< of each term's losses
  std::vector<double> items;  ///< of each term
  core::Tensor logits;        ///< [R, C] of the first term's items
  double correct = 0;         ///< of the first term's items, those whose largest logit is the target's
  std::vector<std::pair<std::string, core::Tensor>> outputs;  ///< [rows, ...] each; where they were asked for
};

class Task {
 public:
  virtual ~Task() = default;

  virtual nn::Module& model() const = 0;
  /// Names of the loss's terms.
  virtual const std::vector<std::string>& terms() const = 0;
  /// Items of each term in a batch.
  virtual std::vector<double> items(const data::Batch& batch) const = 0;
  /// True where each row is one item, so that their number on all ranks is known without asking.
  virtual bool items_are_rows() const { return false; }

  /// Forward, in the model's mode: each term's losses, summed over its items. Every parameter is reached, also where
  /// there is no row or no item.
  virtual std::vector<nn::Variable> loss_sums(const data::Batch& batch) = 0;
  virtual BatchEvaluation evaluate(const data::Batch& batch, bool with_outputs) = 0;
};

/// Of the rows of logits [R, C], those whose largest element, the first of them, is the target's [R].
double count_correct(const core::Tensor& logits, const core::Tensor& target);

}  // namespace tandem::train
