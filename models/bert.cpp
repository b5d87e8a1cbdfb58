#include "tandem/models/bert.h"

namespace tandem::models {

using namespace autograd;  // NOLINT: the operators are this file's vocabulary
using core::fail;
using core::Generator;

namespace {

nn::EmbeddingOptions table(const BertConfig& config, std::int64_t padding_idx = -1) {
  return {.padding_idx = padding_idx, .init_deviation = config.initializer_range};
}

}  // namespace

nn::LinearOptions bert_dense(const BertConfig& config) { return {.init_deviation = config.initializer_range}; }

// The bias is added with the activation: its gradient comes with the activation's, in one pass.
Variable bert_dense_activation(const Variable& x, const nn::Linear& dense, BertActivation activation, bool recompute) {
  if (activation == BertActivation::relu) return relu(linear(x, dense.weight(), dense.bias()));
  return bias_gelu(linear(x, dense.weight(), {}), dense.bias(),
                   activation == BertActivation::gelu ? core::GeluApproximation::none : core::GeluApproximation::tanh,
                   recompute);
}

BertLayer::BertLayer(const BertConfig& c, Generator& random)
    : heads_(c.num_attention_heads),
      activation_(c.hidden_act),
      query_(c.hidden_size, c.hidden_size, random, bert_dense(c)),
      key_(c.hidden_size, c.hidden_size, random, bert_dense(c)),
      value_(c.hidden_size, c.hidden_size, random, bert_dense(c)),
      attention_dropout_(c.attention_probs_dropout_prob),
      attention_output_(c.hidden_size, c.hidden_size, random, bert_dense(c)),
      attention_output_dropout_(c.hidden_dropout_prob),
      attention_norm_(c.hidden_size, c.layer_norm_eps),
      intermediate_(c.hidden_size, c.intermediate_size, random, bert_dense(c)),
      output_(c.intermediate_size, c.hidden_size, random, bert_dense(c)),
      output_dropout_(c.hidden_dropout_prob),
      output_norm_(c.hidden_size, c.layer_norm_eps) {
  register_module("attention.self.query", query_);
  register_module("attention.self.key", key_);
  register_module("attention.self.value", value_);
  register_module("attention.self.dropout", attention_dropout_);
  register_module("attention.output.dense", attention_output_);
  register_module("attention.output.LayerNorm", attention_norm_);
  register_module("attention.output.dropout", attention_output_dropout_);
  register_module("intermediate.dense", intermediate_);
  register_module("output.dense", output_);
  register_module("output.LayerNorm", output_norm_);
  register_module("output.dropout", output_dropout_);
}

Variable BertLayer::forward(const Variable& x, const Tensor& mask) {
  const auto [p, stream] = attention_dropout_.next_draw();
  const Variable q = query_.forward(x), k = key_.forward(x), v = value_.forward(x);
  const Variable a = attention(q, k, v, {.heads = heads_, .mask = mask, .dropout_p = p, .stream = stream});
  const Variable y = attention_norm_.forward_add(attention_output_.forward(a), x, attention_output_dropout_);
  return output_norm_.forward_add(output_.forward(bert_dense_activation(y, intermediate_, activation_, recompute_)), y,
                                  output_dropout_);
}

Bert::Bert(const BertConfig& config, Generator& random, bool with_pooler)
    : config_(config),
      word_(config.vocab_size, config.hidden_size, random, table(config, config.pad_token_id)),
      position_(config.max_position_embeddings, config.hidden_size, random, table(config)),
      token_type_(config.type_vocab_size, config.hidden_size, random, table(config)),
      norm_(config.hidden_size, config.layer_norm_eps),
      dropout_(config.hidden_dropout_prob) {
  register_module("embeddings.word_embeddings", word_);
  register_module("embeddings.position_embeddings", position_);
  register_module("embeddings.token_type_embeddings", token_type_);
  register_module("embeddings.LayerNorm", norm_);
  register_module("embeddings.dropout", dropout_);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
    layers_.push_back(std::make_unique<BertLayer>(config, random));
  register_modules("encoder.layer", layers_);
  if (!with_pooler) return;
  pooler_ = std::make_unique<nn::Linear>(config.hidden_size, config.hidden_size, random, bert_dense(config));
  register_module("pooler.dense", *pooler_);
}

void Bert::set_recompute(bool on) {
  for (const auto& layer : layers_) layer->set_recompute(on);
}

void Bert::check(const BertInput& input) const {
  const Tensor& ids = input.input_ids;
  if (ids.rank() != 2 || ids.dtype() != core::DType::int64)
    fail("bert: input_ids are {} {}, needed int64 [N, S]", core::name(ids.dtype()), ids.shape().str());
  for (const Tensor* other : {&input.attention_mask, &input.token_type_ids})
    if (other->defined() && (other->shape() != ids.shape() || other->dtype() != core::DType::int64))
      fail("bert: {} is {} {}, needed int64 {} as input_ids",
           other == &input.attention_mask ? "attention_mask" : "token_type_ids", core::name(other->dtype()),
           other->shape().str(), ids.shape().str());
  if (ids.size(1) > config_.max_position_embeddings)
    fail("bert: a sequence of {} tokens, there are embeddings for {} positions", ids.size(1),
         config_.max_position_embeddings);
}

Variable Bert::embed(const BertInput& input) {
  const Tensor types = input.token_type_ids.defined() ? input.token_type_ids : Tensor::zeros_like(input.input_ids);
  const Variable words = word_.forward(input.input_ids);
  const Variable sum = words + position_.forward(Tensor::arange(input.input_ids.size(1)).to(input.input_ids.device()));
  const Variable x = norm_.forward(sum + token_type_.forward(types));
  return dropout_.forward(input.dtype ? cast(x, *input.dtype) : x);
}

Variable Bert::forward(const BertInput& input) {
  check(input);
  Variable x = embed(input);
  for (const auto& layer : layers_) x = layer->forward(x, input.attention_mask);
  return x;
}

Variable Bert::pool(const Variable& hidden) {
  if (!pooler_) fail("bert: this model was made without pooler");
  return tanh(pooler_->forward(select(hidden, 1, 0)));
}

}  // namespace tandem::models
