// One class for each row: images, or whole sequences.
#pragma once

#include <functional>

#include "tandem/train/task.h"

namespace tandem::train {

class Classification final : public Task {
 public:
  /// `forward` gives a batch's logits [N, C].
  Classification(std::shared_ptr<nn::Module> model, std::function<nn::Variable(const data::Batch&)> forward,
                 double label_smoothing = 0)
      : model_(std::move(model)), forward_(std::move(forward)), label_smoothing_(label_smoothing) {}

  nn::Module& model() const override { return *model_; }
  const std::vector<std::string>& terms() const override;
  std::vector<double> items(const data::Batch& batch) const override { return {static_cast<double>(batch.rows())}; }
  bool items_are_rows() const override { return true; }
  std::vector<nn::Variable> loss_sums(const data::Batch& batch) override;
  BatchEvaluation evaluate(const data::Batch& batch, bool with_outputs) override;

 private:
  std::shared_ptr<nn::Module> model_;
  std::function<nn::Variable(const data::Batch&)> forward_;
  double label_smoothing_;
};

}  // namespace tandem::train
