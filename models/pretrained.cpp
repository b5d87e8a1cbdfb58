#include "tandem/models/pretrained.h"

#include <algorithm>
#include <set>

#include "tandem/core/files/file.h"
#include "tandem/models/adapted_weights.h"
#include "tandem/models/bert_heads.h"
#include "tandem/models/bert_weights.h"
#include "tandem/models/resnet.h"

namespace tandem::models {
namespace {

namespace fs = std::filesystem;

bool is_bert(nn::Module& model) {
  return dynamic_cast<BertForSequenceClassification*>(&model) || dynamic_cast<BertForPreTraining*>(&model) ||
         dynamic_cast<Bert*>(&model);
}

// The layer that tells classes apart.
const char* head_of(nn::Module& model) {
  if (dynamic_cast<BertForSequenceClassification*>(&model)) return "classifier.";
  return dynamic_cast<ResNet*>(&model) ? "fc." : "";
}

// Behind the encoder: what a task of its own may have, and another may lack.
bool is_head(const std::string& name) {
  return name.starts_with("cls.") || name.starts_with("classifier.") || name.find("pooler.") != name.npos;
}

nn::NameDifference difference_of(const core::StateDict& own, const core::StateDict& file) {
  std::set<std::string> of_model, of_file;
  for (const auto& [name, tensor] : own) of_model.insert(name);
  for (const auto& [name, tensor] : file) of_file.insert(name);
  nn::NameDifference difference;
  std::set_difference(of_model.begin(), of_model.end(), of_file.begin(), of_file.end(),
                      std::back_inserter(difference.missing));
  std::set_difference(of_file.begin(), of_file.end(), of_model.begin(), of_model.end(),
                      std::back_inserter(difference.unexpected));
  return difference;
}

nn::NameDifference load_bert(nn::Module& model, const core::StateDict& file) {
  const core::StateDict renamed = with_names_of(model, file);
  const nn::NameDifference difference = difference_of(model.state_dict(), renamed);
  const auto all_heads = [](const std::vector<std::string>& names) {
    return std::all_of(names.begin(), names.end(), is_head);
  };
  if (!all_heads(difference.missing) || !all_heads(difference.unexpected)) core::fail("{}", difference.str());
  return model.load_matching(renamed);
}

}  // namespace

std::string LoadedWeights::left_out() const {
  if (heads.empty()) return new_head;
  return new_head + (new_head.empty() ? "" : "; ") + heads.str();
}

LoadedWeights load_weights(nn::Module& model, const core::StateDict& weights) {
  const AdaptedWeights adapted = adapt_weights(model, weights, head_of(model));
  LoadedWeights loaded{.new_head = adapted.new_head};
  if (is_bert(model))
    loaded.heads = load_bert(model, adapted.state);
  else
    model.load_state_dict(adapted.state);
  return loaded;
}

LoadedWeights load_weights(nn::Module& model, const fs::path& path) {
  const fs::path file = fs::is_directory(path) ? path / kWeightsFile : path;
  const core::TensorMap tensors = core::load_safetensors(file);
  try {
    return load_weights(model, core::StateDict(tensors.begin(), tensors.end()));
  } catch (const core::Error& error) {
    core::fail("{}: {}", file.string(), error.what());
  }
}

std::string model_config_json(nn::Module& model) {
  if (auto* classifier = dynamic_cast<BertForSequenceClassification*>(&model)) {
    BertConfig config = classifier->bert().config();
    config.num_labels = classifier->labels();
    if (std::ssize(config.label_names) != config.num_labels) config.label_names.clear();
    return to_json(config, "BertForSequenceClassification");
  }
  if (auto* pre_training = dynamic_cast<BertForPreTraining*>(&model))
    return to_json(pre_training->bert().config(),
                   pre_training->has_next_sentence() ? "BertForPreTraining" : "BertForMaskedLM");
  core::fail("the model is no BERT with a head, so it has no config.json");
}

void save_pretrained(const fs::path& folder, nn::Module& model, core::Metadata metadata) {
  const std::string config = model_config_json(model);
  fs::create_directories(folder);
  metadata["format"] = "pt";
  core::save_safetensors(folder / kWeightsFile, model.state_dict(), metadata);
  core::write_file_atomically(folder / kConfigFile, config);
}

}  // namespace tandem::models
