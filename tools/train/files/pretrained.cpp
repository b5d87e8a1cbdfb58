#include "tools/train/files/pretrained.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tandem/core/files/file.h"
#include "tandem/core/files/safetensors.h"
#include "tandem/models/pretrained.h"
#include "tools/train/files/class_names.h"
#include "tools/train/files/pretrained_folder.h"
#include "tools/train/settings/bert_settings.h"

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVocabularyKey = "vocabulary";

// Parts that the weights lack were drawn: to evaluate them would tell nothing. Hidden states do not need "cls.".
void check_complete(const Settings& settings, const nn::NameDifference& difference) {
  if (!settings.eval_only) return;
  for (const std::string& name : difference.missing)
    if (!name.starts_with("cls.") || !settings.save_outputs)
      core::fail("--eval-only needs all weights of the model; {}", difference.str());
}

// What a shape that differs may be due to.
std::string advice_for(const Settings& settings, const nn::Module& model, const core::StateDict& state) {
  if (!is_resnet(settings)) return "";
  for (const auto& [name, tensor] : state) {
    if ((name != "conv1.weight" && name != "module.conv1.weight") || tensor.shape().rank() != 4) continue;
    const core::Shape own = model.named_parameters().front().variable.shape();
    if (tensor.size(1) != own[1])
      return fmt::format("; the file is for images of {} channels, the data's have {}", tensor.size(1), own[1]);
    const char* stem = tensor.size(2) == 7 ? "imagenet" : "small";
    if (tensor.size(2) != own[2]) return fmt::format("; --stem {} has the file's shape", stem);
  }
  return "";
}

// What the model's tokens mean goes with it: the data's words, else the files that came with its first weights.
void save_vocabulary(const fs::path& folder, const Settings& settings, const DataSource& data) {
  if (data.tokenizer) return data::save_tokenizer(folder, *data.tokenizer);
  std::error_code error;
  if (settings.init_weights && fs::equivalent(*settings.init_weights, folder, error)) return;
  for (const char* name : {data::kVocabularyFile, data::kTokenizerFile, data::kTokenizerConfigFile}) {
    if (const auto earlier = file_in_folder(settings.init_weights, name))
      core::write_file_atomically(folder / name, core::read_file(*earlier));
    else
      fs::remove(folder / name);
  }
}

// The same matrices compute something else with other heads, activations or eps.
void check_config(const Settings& settings) {
  const auto file = file_in_folder(settings.init_weights, kConfigFile);
  if (!file) return;
  const auto parsed = [](const models::BertConfig& config) {
    return nlohmann::json::parse(models::to_json(config, ""));
  };
  const auto theirs = parsed(models::parse_bert_config(core::read_file(*file), *file));
  const auto ours = parsed(bert_config_of(settings));
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                          "max_position_embeddings", "type_vocab_size", "pad_token_id", "hidden_act", "layer_norm_eps"})
    if (theirs.at(key) != ours.at(key))
      core::fail("--init-weights {}: its {} says \"{}\": {}, but {} says {}; --model bert alone takes the folder's",
                 *settings.init_weights, kConfigFile, key, theirs.at(key).dump(),
                 settings.model_config ? "--model-config " + *settings.model_config : "--model " + settings.model,
                 ours.at(key).dump());
}

// Rows of the embeddings are the words that the weights were trained with, and no others.
void check_vocabulary(const Settings& settings, const DataSource& data, const core::Metadata& metadata) {
  const auto known = vocabulary_hash(data);
  if (!known) return;
  const auto said = metadata.find(kVocabularyKey);
  if (said == metadata.end() && !settings.vocab)
    core::fail(
        "does not say which words its embeddings are, and --data {} would be cut by a new vocabulary: give --vocab",
        *settings.data);
  if (said != metadata.end() && said->second != *known)
    core::fail("was trained with another vocabulary than {}",
               settings.vocab ? "--vocab " + *settings.vocab : "the one that --data " + *settings.data + " gives");
}

}  // namespace

core::Metadata weights_metadata(const Settings& settings, const DataSource& data) {
  core::Metadata metadata = class_names_metadata(settings, data);
  if (const auto hash = vocabulary_hash(data)) metadata[kVocabularyKey] = *hash;
  return metadata;
}

std::string load_initial_weights(const Settings& settings, const DataSource& data, nn::Module& model) {
  const std::string& given = *settings.init_weights;
  if (fs::is_directory(given) && !file_in_folder(given, kWeightsFile))
    core::fail("--init-weights {}: has no {}", given, kWeightsFile);
  const std::string file = file_in_folder(given, kWeightsFile).value_or(given);
  if (is_bert(settings)) check_config(settings);
  core::TensorMap weights;
  core::Metadata metadata;
  try {
    weights = core::load_safetensors(file, &metadata);
  } catch (const core::Error& error) {
    core::fail("--init-weights {}", error.what());
  }
  try {
    check_vocabulary(settings, data, metadata);
  } catch (const core::Error& error) {
    core::fail("--init-weights {}: {}", file, error.what());
  }
  return load_weights(settings, "--init-weights " + file, {weights.begin(), weights.end()}, model);
}

std::string load_weights(const Settings& settings, const std::string& where, const core::StateDict& weights,
                         nn::Module& model) {
  models::LoadedWeights loaded;
  try {
    loaded = models::load_weights(model, weights);
    check_complete(settings, loaded.heads);
  } catch (const core::Error& error) {
    core::fail("{}: do not fit model {}: {}{}", where, settings.model, error.what(),
               advice_for(settings, model, weights));
  }
  if (settings.eval_only && !settings.resume && !loaded.new_head.empty())
    core::fail("{}: cannot be evaluated on --data {}: {}", where, *settings.data, loaded.new_head);
  return loaded.left_out();
}

void save_pretrained(const std::string& folder, const Settings& settings, const DataSource& data, nn::Module& model) {
  models::save_pretrained(folder, model, weights_metadata(settings, data));
  save_vocabulary(folder, settings, data);
}

}  // namespace tandem::train
