// BERT's encoder: embeddings and a stack of transformer layers, and the pooler on its first token. Heads are in
// bert_heads.h.
//
//   x = dropout(layer_norm(word + position + type))                              [N, S, D]
//   layer:  a = attention(query x, key x, value x)
//           x = layer_norm(x + dropout(output a))
//           x = layer_norm(x + dropout(W2 gelu(W1 x)))
//   pooled = tanh(W x[:, 0])                                                      [N, D]
//
// Names of parameters are Hugging Face's, so that files go both ways.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tandem/models/bert_config.h"
#include "tandem/nn/dropout.h"
#include "tandem/nn/embedding.h"
#include "tandem/nn/layer_norm.h"
#include "tandem/nn/linear.h"

namespace tandem::models {

using core::Tensor;
using nn::Variable;

/// Tensors are int64 [N, S].
struct BertInput {
  Tensor input_ids;
  Tensor attention_mask = {};  ///< 1 at tokens, 0 at padding; undefined: no padding
  Tensor token_type_ids = {};  ///< undefined: all 0
  /// Of hidden states: bfloat16 computes with less precision where weights stay float32. By default the weights'.
  std::optional<core::DType> dtype = std::nullopt;
};

// Shared by all parts of a BERT.

/// How its dense layers begin.
nn::LinearOptions bert_dense(const BertConfig& config);
/// activation(W x + b) of a dense layer. `recompute`: what follows does not keep it where it is a GELU.
Variable bert_dense_activation(const Variable& x, const nn::Linear& dense, BertActivation activation,
                               bool recompute = false);

/// One layer of the encoder.
class BertLayer final : public nn::Module {
 public:
  using Module::forward;  // of one Variable alone, which throws
  BertLayer(const BertConfig& config, core::Generator& random);
  /// x [N, S, D], mask [N, S] or undefined -> [N, S, D]
  Variable forward(const Variable& x, const Tensor& mask);
  void set_recompute(bool on) { recompute_ = on; }

 private:
  std::int64_t heads_;
  BertActivation activation_;
  bool recompute_ = false;
  nn::Linear query_, key_, value_;
  nn::Dropout attention_dropout_;
  nn::Linear attention_output_;
  nn::Dropout attention_output_dropout_;
  nn::LayerNorm attention_norm_;
  nn::Linear intermediate_, output_;
  nn::Dropout output_dropout_;
  nn::LayerNorm output_norm_;
};

class Bert final : public nn::Module {
 public:
  using Module::forward;  // of one Variable alone, which throws
  /// Weights are normal with deviation initializer_range, biases 0.
  Bert(const BertConfig& config, core::Generator& random, bool with_pooler = true);

  /// The last layer's output [N, S, D]. Throws Error where shapes do not fit, S is more than max_position_embeddings,
  /// or an id is none of the vocabulary's.
  Variable forward(const BertInput& input);
  /// tanh(W x[:, 0]) of forward()'s result, [N, D]. Throws Error where the model was made without pooler.
  Variable pool(const Variable& hidden);

  const BertConfig& config() const { return config_; }
  /// Layers do not keep what GELU gave, [N, S, intermediate_size], but compute it again in backward: less memory, a
  /// little more time, the same bits. Off at first. ReLU in its place needs nothing of the kind: its output is kept
  /// once, for itself and for what follows.
  void set_recompute(bool on);

  bool has_pooler() const { return pooler_ != nullptr; }
  /// [V, D]: the masked-LM head's decoder is this matrix.
  const Variable& word_embeddings() const { return word_.weight(); }

 private:
  void check(const BertInput& input) const;
  Variable embed(const BertInput& input);

  BertConfig config_;
  nn::Embedding word_, position_, token_type_;
  nn::LayerNorm norm_;
  nn::Dropout dropout_;
  std::vector<std::unique_ptr<BertLayer>> layers_;
  std::unique_ptr<nn::Linear> pooler_;
};

}  // namespace tandem::models
