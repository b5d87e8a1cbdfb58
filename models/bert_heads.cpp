#include "tandem/models/bert_heads.h"

namespace tandem::models {

using namespace autograd;  // NOLINT: the operators are this file's vocabulary
using core::Generator;

BertMaskedLmHead::BertMaskedLmHead(const BertConfig& config, Generator& random)
    : activation_(config.hidden_act),
      bias_(register_parameter("bias", Tensor::zeros({config.vocab_size}))),
      transform_(config.hidden_size, config.hidden_size, random, bert_dense(config)),
      norm_(config.hidden_size, config.layer_norm_eps) {
  register_module("transform.dense", transform_);
  register_module("transform.LayerNorm", norm_);
}

Variable BertMaskedLmHead::forward(const Variable& hidden, const Variable& word_embeddings) {
  return linear(norm_.forward(bert_dense_activation(hidden, transform_, activation_)), word_embeddings, bias_);
}

BertForPreTraining::BertForPreTraining(const BertConfig& config, Generator& random, bool next_sentence)
    : bert_(config, random, /*with_pooler=*/next_sentence), masked_lm_(config, random) {
  register_module("bert", bert_);
  register_module("cls.predictions", masked_lm_);
  if (!next_sentence) return;
  next_sentence_ = std::make_unique<nn::Linear>(config.hidden_size, 2, random, bert_dense(config));
  register_module("cls.seq_relationship", *next_sentence_);
}

BertForPreTraining::Output BertForPreTraining::forward(const BertInput& input, const Tensor& positions) {
  const Variable hidden = bert_.forward(input);
  Output output{.token_logits = {}, .next_sentence_logits = {}, .hidden = hidden};
  if (next_sentence_) output.next_sentence_logits = next_sentence_->forward(bert_.pool(hidden));
  Variable rows = reshape(hidden, {-1, hidden.size(2)});
  if (positions.defined()) rows = embedding(rows, positions);  // rows by number, here of hidden states
  output.token_logits = masked_lm_.forward(rows, bert_.word_embeddings());
  return output;
}

BertForSequenceClassification::BertForSequenceClassification(const BertConfig& config, Generator& random,
                                                             std::int64_t labels)
    : bert_(config, random),
      dropout_(config.classifier_dropout.value_or(config.hidden_dropout_prob)),
      classifier_(config.hidden_size, labels, random, bert_dense(config)) {
  register_module("bert", bert_);
  register_module("dropout", dropout_);
  register_module("classifier", classifier_);
}

Variable BertForSequenceClassification::forward(const BertInput& input) {
  return classifier_.forward(dropout_.forward(bert_.pool(bert_.forward(input))));
}

}  // namespace tandem::models
