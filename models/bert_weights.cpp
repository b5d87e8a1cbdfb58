#include "tandem/models/bert_weights.h"

#include <cstring>
#include <map>
#include <set>

namespace tandem::models {
namespace {

using core::StateDict;
using core::Tensor;

constexpr std::string_view kPrefix = "bert.";

std::string replace_ending(const std::string& name, std::string_view ending, std::string_view other) {
  if (!name.ends_with(ending)) return name;
  return name.substr(0, name.size() - ending.size()).append(other);
}

// TensorFlow's names of a layer norm's parameters.
std::string modern(const std::string& name) {
  return replace_ending(replace_ending(name, "LayerNorm.gamma", "LayerNorm.weight"), "LayerNorm.beta",
                        "LayerNorm.bias");
}

bool is_same(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.to(core::kCpu).contiguous(), y = b.to(core::kCpu).contiguous();
  return std::memcmp(x.raw_data(), y.raw_data(), x.bytes()) == 0;
}

// What `name` is another name of, else "".
std::string first_name(const std::string& name) {
  if (name == "cls.predictions.decoder.weight") return "bert.embeddings.word_embeddings.weight";
  if (name == "cls.predictions.decoder.bias") return "cls.predictions.bias";
  return "";
}

}  // namespace

StateDict with_names_of(nn::Module& model, const StateDict& file) {
  std::set<std::string> own;
  for (const auto& [name, tensor] : model.state_dict()) own.insert(name);
  std::map<std::string, const Tensor*> given;
  for (const auto& [name, tensor] : file) given[name] = &tensor;

  StateDict renamed;
  std::set<std::string> taken;
  for (const auto& [given_name, tensor] : file) {
    if (given_name.ends_with("embeddings.position_ids")) continue;
    const std::string first = first_name(given_name);
    if (const auto same = given.find(first); !first.empty() && same != given.end()) {
      if (!is_same(tensor, *same->second))
        core::fail("{} has other values than {}: a decoder that is not tied to the word embeddings", given_name, first);
      continue;
    }
    std::string name = first.empty() ? modern(given_name) : first;
    if (!own.count(name)) {
      const std::string other = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : std::string(kPrefix) + name;
      if (own.count(other)) name = other;
    }
    if (!taken.insert(name).second) core::fail("{} is there twice, under two names", name);
    renamed.emplace_back(name, tensor);
  }
  return renamed;
}

}  // namespace tandem::models
