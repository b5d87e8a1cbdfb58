// What BERT is trained with: heads on the encoder's output.
//
// Source: Devlin et al., 2019. Names of parameters are those of Hugging Face's BertForPreTraining, BertForMaskedLM and
// BertForSequenceClassification.
#pragma once

#include <memory>

#include "tandem/models/bert.h"

namespace tandem::models {

/// logits = layer_norm(gelu(W h)) E^T + bias, where E, the decoder, is the matrix of word embeddings.
class BertMaskedLmHead final : public nn::Module {
 public:
  using Module::forward;  // of one Variable alone, which throws
  BertMaskedLmHead(const BertConfig& config, core::Generator& random);
  /// hidden [P, D], word_embeddings [V, D] -> [P, V]
  Variable forward(const Variable& hidden, const Variable& word_embeddings);

 private:
  BertActivation activation_;
  Variable bias_;
  nn::Linear transform_;
  nn::LayerNorm norm_;
};

/// The masked-LM head, with or without the head that tells whether a pair's second sentence follows its first.
class BertForPreTraining final : public nn::Module {
 public:
  using Module::forward;  // of one Variable alone, which throws
  BertForPreTraining(const BertConfig& config, core::Generator& random, bool next_sentence = true);

  struct Output {
    Variable token_logits;          ///< [P, V], P = N S without `positions`
    Variable next_sentence_logits;  ///< [N, 2]: follows, does not; undefined without that head
    Variable hidden;                ///< [N, S, D], of the last layer
  };
  /// Logits at `positions` alone, int64 [P], numbers in [0, N S); undefined: everywhere. Only what is asked for is
  /// computed.
  Output forward(const BertInput& input, const Tensor& positions = {});

  Bert& bert() { return bert_; }
  bool has_next_sentence() const { return next_sentence_ != nullptr; }

 private:
  Bert bert_;
  BertMaskedLmHead masked_lm_;
  std::unique_ptr<nn::Linear> next_sentence_;
};

/// logits = W dropout(pooled) + b.
class BertForSequenceClassification final : public nn::Module {
 public:
  using Module::forward;  // of one Variable alone, which throws
  BertForSequenceClassification(const BertConfig& config, core::Generator& random, std::int64_t labels);
  /// -> [N, labels]
  Variable forward(const BertInput& input);

  Bert& bert() { return bert_; }
  std::int64_t labels() const { return classifier_.weight().size(0); }

 private:
  Bert bert_;
  nn::Dropout dropout_;
  nn::Linear classifier_;
};

}  // namespace tandem::models
