// The sizes and rates of a BERT, as Hugging Face's config.json names them.
//
// Source: Devlin, Chang, Lee, Toutanova, "BERT: pre-training of deep bidirectional transformers", NAACL 2019; the small
// ones: Turc et al., "Well-read students learn better", 2019.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::models {

enum class BertActivation : std::uint8_t { gelu, gelu_tanh, relu };

struct BertConfig {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;  ///< D, a multiple of the heads
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t max_position_embeddings = 512;  ///< the longest sequence
  std::int64_t type_vocab_size = 2;            ///< of sentences told apart
  std::int64_t pad_token_id = 0;
  BertActivation hidden_act = BertActivation::gelu;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::optional<double> classifier_dropout;  ///< none: hidden_dropout_prob
  std::int64_t num_labels = 0;               ///< of a sequence classifier; 0: not said
  std::vector<std::string> label_names;      ///< as many, or none
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;  ///< deviation of the initial weights
};

/// "tiny" (2 layers of 128), "mini" (4, 256), "base" (12, 768), "large" (24, 1024).
const std::vector<std::string>& bert_config_names();
/// Throws listing the names where `name` is none of them.
BertConfig bert_config(std::string_view name);

/// Of the encoder with the masked-LM head: what a model of these sizes is going to need room for.
double parameter_count(const BertConfig& config);

/// From the text of a config.json; keys that do not matter for the arithmetic are left alone, missing ones have
/// Hugging Face's defaults. Throws Error naming `source` and the key where the text is no JSON object, a value has the
/// wrong type or is out of range, sizes do not go together, or the model is one that this is not (another model_type, a
/// decoder, relative positions, another activation, an untied decoder).
BertConfig parse_bert_config(std::string_view text, const std::string& source);

/// A config.json that Hugging Face's from_pretrained reads. `architecture`: "BertForPreTraining", ...
std::string to_json(const BertConfig& config, const std::string& architecture);

}  // namespace tandem::models
