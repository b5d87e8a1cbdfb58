// BERT's pre-training: predict the tokens that were masked and, given pairs, whether the second sentence follows the
// first. Source: Devlin et al., 2019.
#pragma once

#include "tandem/models/bert_heads.h"
#include "tandem/train/task.h"

namespace tandem::train {

class PreTraining final : public Task {
 public:
  /// Hidden states have the dtype `activations`. `predict_all`: the head computes logits at all positions, not at the
  /// predicted ones alone; the loss is the same.
  PreTraining(std::shared_ptr<models::BertForPreTraining> model, core::DType activations, bool predict_all,
              double label_smoothing);

  nn::Module& model() const override { return *model_; }
  const std::vector<std::string>& terms() const override { return terms_; }
  std::vector<double> items(const data::Batch& batch) const override;
  std::vector<nn::Variable> loss_sums(const data::Batch& batch) override;
  BatchEvaluation evaluate(const data::Batch& batch, bool with_outputs) override;

 private:
  struct Forward;
  Forward forward(const data::Batch& batch) const;
  std::vector<nn::Variable> sums(const Forward& forward, const data::Batch& batch, double label_smoothing) const;

  std::shared_ptr<models::BertForPreTraining> model_;
  std::vector<std::string> terms_;
  core::DType activations_;
  bool predict_all_;
  double label_smoothing_;
};

/// What a BERT whose hidden states are to be `activations` takes of a batch of text.
models::BertInput bert_input(const data::Batch& batch, core::DType activations);

}  // namespace tandem::train
