#include "tools/train/tasks/pre_training.h"

#include "tandem/nn/loss.h"

namespace tandem::train {
namespace {

nn::CrossEntropyOptions summed(double label_smoothing) {
  nn::CrossEntropyOptions options;
  options.label_smoothing = label_smoothing;
  options.reduction = nn::Reduction::sum;
  return options;
}

}  // namespace

/// A batch's logits, and what they are compared with.
struct PreTraining::Forward {
  models::BertForPreTraining::Output output;
  core::Tensor targets;  ///< of the rows of token_logits
};

PreTraining::PreTraining(std::shared_ptr<models::BertForPreTraining> model, core::DType activations, bool predict_all,
                         double label_smoothing)
    : model_(std::move(model)),
      activations_(activations),
      predict_all_(predict_all),
      label_smoothing_(label_smoothing) {
  terms_.emplace_back("masked_lm_loss");
  if (model_->has_next_sentence()) terms_.emplace_back("next_sentence_loss");
}

std::vector<double> PreTraining::items(const data::Batch& batch) const {
  std::vector<double> items{static_cast<double>(batch.predicted_positions.numel())};
  if (model_->has_next_sentence()) items.push_back(static_cast<double>(batch.rows()));
  return items;
}

PreTraining::Forward PreTraining::forward(const data::Batch& batch) const {
  const models::BertInput input = bert_input(batch, activations_);
  if (predict_all_) return {.output = model_->forward(input), .targets = batch.target.reshape({-1})};
  return {.output = model_->forward(input, batch.predicted_positions), .targets = batch.predicted_targets};
}

std::vector<nn::Variable> PreTraining::sums(const Forward& forward, const data::Batch& batch,
                                            double label_smoothing) const {
  const auto& [tokens, next_sentence, hidden] = forward.output;
  std::vector<nn::Variable> all{nn::cross_entropy(tokens, forward.targets, summed(label_smoothing))};
  if (next_sentence.defined()) all.push_back(nn::cross_entropy(next_sentence, batch.next_sentence, summed(0)));
  return all;
}

std::vector<nn::Variable> PreTraining::loss_sums(const data::Batch& batch) {
  return sums(forward(batch), batch, label_smoothing_);
}

BatchEvaluation PreTraining::evaluate(const data::Batch& batch, bool with_outputs) {
  const Forward result = forward(batch);
  BatchEvaluation evaluation{.sums = {},
                             .items = items(batch),
                             .logits = result.output.token_logits.data(),
                             .correct = count_correct(result.output.token_logits.data(), result.targets),
                             .outputs = {}};
  for (const nn::Variable& sum : sums(result, batch, 0)) evaluation.sums.push_back(sum.data().item());
  if (with_outputs) evaluation.outputs.emplace_back("last_hidden_state", result.output.hidden.data());
  if (with_outputs && model_->bert().has_pooler())
    evaluation.outputs.emplace_back("pooler_output", model_->bert().pool(result.output.hidden).data());
  return evaluation;
}

models::BertInput bert_input(const data::Batch& batch, core::DType activations) {
  return {.input_ids = batch.input,
          .attention_mask = batch.attention_mask,
          .token_type_ids = batch.token_type_ids,
          .dtype = activations};
}

}  // namespace tandem::train
