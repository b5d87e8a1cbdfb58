#include "tandem/models/bert_config.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "tandem/core/error.h"

namespace tandem::models {
namespace {

using core::fail;
using nlohmann::json;

constexpr std::pair<std::string_view, BertActivation> kActivations[] = {
    {"gelu", BertActivation::gelu},
    {"gelu_new", BertActivation::gelu_tanh},
    {"gelu_pytorch_tanh", BertActivation::gelu_tanh},
    {"relu", BertActivation::relu},
};

constexpr std::int64_t kMostLabels = 1 << 20;

/// Reads keys of one object; errors name the source and the key.
class Reader {
 public:
  Reader(const json& object, const std::string& source) : object_(object), source_(source) {}

  void whole(const char* key, std::int64_t& value, std::int64_t low, std::int64_t high) const {
    const json* found = find(key);
    if (!found) return;
    const bool is_whole = found->is_number_integer() && (!found->is_number_unsigned() || *found <= high);
    if (!is_whole || *found < low || *found > high)
      fail("{}: \"{}\" is {}, needed a whole number from {} to {}", source_, key, shown(*found), low, high);
    value = found->get<std::int64_t>();
  }

  /// In [low, high); `value` is a double or an optional one.
  template <class Field>
  void number(const char* key, Field& value, double low, double high) const {
    const json* found = find(key);
    if (!found) return;
    if (!found->is_number() || !(found->get<double>() >= low && found->get<double>() < high))
      fail("{}: \"{}\" is {}, needed a number from {} to below {}", source_, key, shown(*found), low, high);
    value = found->get<double>();
  }

  /// Must be `only`, where it is there: the other values are models that this is not.
  void fixed(const char* key, const json& only) const {
    const json* found = find(key);
    if (found && *found != only) fail("{}: \"{}\" is {}, supported is {}", source_, key, shown(*found), only.dump());
  }

  /// Of a classifier: its labels by number, or how many there are.
  void labels(BertConfig& config) const {
    whole("num_labels", config.num_labels, 1, kMostLabels);
    const json* names = find("id2label");
    if (!names) return;
    if (!names->is_object() || names->empty())
      fail("{}: \"id2label\" is {}, needed an object with a name for each label", source_, shown(*names));
    if (std::ssize(*names) > kMostLabels)
      fail("{}: \"id2label\" has {} labels, at most {} are possible", source_, names->size(), kMostLabels);
    if (config.num_labels != 0 && config.num_labels != std::ssize(*names))
      fail("{}: \"num_labels\" is {}, but \"id2label\" has {}", source_, config.num_labels, names->size());
    config.num_labels = std::ssize(*names);
    for (std::int64_t label = 0; label < config.num_labels; ++label) {
      const auto name = names->find(std::to_string(label));
      if (name == names->end() || !name->is_string())
        fail("{}: \"id2label\" has no name for \"{}\", needed are names for \"0\" to \"{}\"", source_, label,
             config.num_labels - 1);
      config.label_names.push_back(name->get<std::string>());
    }
  }

  BertActivation activation(const char* key) const {
    const json* found = find(key);
    if (!found) return BertActivation::gelu;
    std::vector<std::string_view> names;
    for (const auto& [name, activation] : kActivations) {
      if (*found == json(name)) return activation;
      names.push_back(name);
    }
    fail("{}: \"{}\" is {}, supported are {}", source_, key, shown(*found), fmt::join(names, ", "));
  }

 private:
  /// None where it is absent or null.
  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  static std::string shown(const json& value) {
    std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    return text.size() > 60 ? text.substr(0, 57) + "..." : text;
  }

  const json& object_;
  const std::string& source_;
};

json parse_object(std::string_view text, const std::string& source) {
  json object;
  try {
    // What is deeper is no configuration, and could not be shown in a message without running out of stack.
    constexpr int kDeepest = 8;
    object = json::parse(text, [&](int depth, json::parse_event_t, const json&) {
      if (depth > kDeepest) fail("{}: nested more than {} deep", source, kDeepest);
      return true;
    });
  } catch (const json::parse_error& error) {
    fail("{}, byte {}: not JSON", source, error.byte);
  }
  if (!object.is_object()) fail("{}: holds no JSON object with a model's settings", source);
  return object;
}

}  // namespace

const std::vector<std::string>& bert_config_names() {
  static const std::vector<std::string> names{"tiny", "mini", "base", "large"};
  return names;
}

BertConfig bert_config(std::string_view name) {
  const auto sized = [](std::int64_t layers, std::int64_t hidden) {
    BertConfig config;
    config.num_hidden_layers = layers;
    config.hidden_size = hidden;
    config.num_attention_heads = hidden / 64;
    config.intermediate_size = 4 * hidden;
    return config;
  };
  if (name == "tiny") return sized(2, 128);
  if (name == "mini") return sized(4, 256);
  if (name == "base") return sized(12, 768);
  if (name == "large") return sized(24, 1024);
  fail("bert: '{}' is none of {}", name, fmt::join(bert_config_names(), ", "));
}

double parameter_count(const BertConfig& c) {
  const auto d = static_cast<double>(c.hidden_size), f = static_cast<double>(c.intermediate_size);
  const auto rows = static_cast<double>(c.vocab_size + c.max_position_embeddings + c.type_vocab_size);
  const double layer = 4 * (d * d + d) + (d * f + f) + (f * d + d) + 4 * d;
  return rows * d + 2 * d + static_cast<double>(c.num_hidden_layers) * layer + (d * d + d) + 2 * d +
         static_cast<double>(c.vocab_size);
}

BertConfig parse_bert_config(std::string_view text, const std::string& source) {
  const json object = parse_object(text, source);
  const Reader reader(object, source);
  reader.fixed("model_type", "bert");
  reader.fixed("is_decoder", false);
  reader.fixed("add_cross_attention", false);
  reader.fixed("position_embedding_type", "absolute");
  reader.fixed("tie_word_embeddings", true);

  BertConfig config;
  reader.whole("vocab_size", config.vocab_size, 1, 1 << 24);
  reader.whole("hidden_size", config.hidden_size, 1, 1 << 16);
  reader.whole("num_hidden_layers", config.num_hidden_layers, 1, 512);
  reader.whole("num_attention_heads", config.num_attention_heads, 1, 1 << 16);
  reader.whole("intermediate_size", config.intermediate_size, 1, 1 << 18);
  reader.whole("max_position_embeddings", config.max_position_embeddings, 1, 1 << 20);
  reader.whole("type_vocab_size", config.type_vocab_size, 1, 1 << 16);
  reader.whole("pad_token_id", config.pad_token_id, 0, config.vocab_size - 1);
  config.hidden_act = reader.activation("hidden_act");
  reader.labels(config);
  reader.number("hidden_dropout_prob", config.hidden_dropout_prob, 0, 1);
  reader.number("attention_probs_dropout_prob", config.attention_probs_dropout_prob, 0, 1);
  reader.number("classifier_dropout", config.classifier_dropout, 0, 1);
  reader.number("layer_norm_eps", config.layer_norm_eps, 0, 1);
  reader.number("initializer_range", config.initializer_range, 0, 10);
  if (config.hidden_size % config.num_attention_heads != 0)
    fail("{}: \"hidden_size\" {} is no multiple of \"num_attention_heads\" {}", source, config.hidden_size,
         config.num_attention_heads);
  return config;
}

std::string to_json(const BertConfig& config, const std::string& architecture) {
  std::string_view activation;
  for (const auto& [name, value] : kActivations)
    if (activation.empty() && value == config.hidden_act) activation = name;
  json object{{"architectures", {architecture}},
              {"model_type", "bert"},
              {"vocab_size", config.vocab_size},
              {"hidden_size", config.hidden_size},
              {"num_hidden_layers", config.num_hidden_layers},
              {"num_attention_heads", config.num_attention_heads},
              {"intermediate_size", config.intermediate_size},
              {"max_position_embeddings", config.max_position_embeddings},
              {"type_vocab_size", config.type_vocab_size},
              {"pad_token_id", config.pad_token_id},
              {"hidden_act", activation},
              {"hidden_dropout_prob", config.hidden_dropout_prob},
              {"attention_probs_dropout_prob", config.attention_probs_dropout_prob},
              {"classifier_dropout", config.classifier_dropout ? json(*config.classifier_dropout) : json()},
              {"layer_norm_eps", config.layer_norm_eps},
              {"initializer_range", config.initializer_range},
              {"tie_word_embeddings", true}};
  for (std::int64_t label = 0; label < config.num_labels; ++label) {
    const std::string name = config.label_names.empty() ? fmt::format("LABEL_{}", label)
                                                        : config.label_names.at(static_cast<std::size_t>(label));
    object["id2label"][std::to_string(label)] = name;
    object["label2id"][name] = label;
  }
  return object.dump(2) + "\n";
}

}  // namespace tandem::models
