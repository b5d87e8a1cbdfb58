#include "tools/train/pretrained.h"

#include <algorithm>
#include <filesystem>

#include "tandem/data/file.h"
#include "tandem/data/safetensors.h"
#include "tandem/models/bert_heads.h"
#include "tandem/models/bert_weights.h"
#include "tools/train/adapted_weights.h"
#include "tools/train/pretrained_folder.h"

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

// Behind the encoder: what a task of its own may have, and another may lack.
bool is_head(const std::string& name) {
  return name.starts_with("cls.") || name.starts_with("classifier.") || name.find("pooler.") != name.npos;
}

std::string load_bert(nn::Module& model, const core::StateDict& file) {
  const core::StateDict renamed = models::with_names_of(model, file);
  const nn::NameDifference difference = model.load_matching(renamed);
  const auto all_heads = [](const std::vector<std::string>& names) {
    return std::all_of(names.begin(), names.end(), is_head);
  };
  if (!all_heads(difference.missing) || !all_heads(difference.unexpected)) core::fail("{}", difference.str());
  return difference.empty() ? "" : difference.str();
}

// The layer that tells classes apart.
std::string head_of(const Settings& settings) {
  if (is_bert(settings)) return "classifier.";
  return is_resnet(settings) ? "fc." : "";
}

// What a shape that differs may be due to.
std::string advice_for(const Settings& settings, const nn::Module& model, const core::StateDict& state) {
  if (!is_resnet(settings)) return "";
  for (const auto& [name, tensor] : state) {
    if (name != "conv1.weight" || tensor.shape().rank() != 4) continue;
    const core::Shape own = model.named_parameters().front().variable.shape();
    if (tensor.size(1) != own[1])
      return fmt::format("; the file is for images of {} channels, the data's have {}", tensor.size(1), own[1]);
    const char* stem = tensor.size(2) == 7 ? "imagenet" : "small";
    if (tensor.size(2) != own[2]) return fmt::format("; --stem {} has the file's shape", stem);
  }
  return "";
}

// The model's own configuration, under Hugging Face's name of its class: the file that it came from may be another now.
std::string config_of(nn::Module& model) {
  if (auto* classifier = dynamic_cast<models::BertForSequenceClassification*>(&model)) {
    models::BertConfig config = classifier->bert().config();
    config.num_labels = classifier->labels();
    return models::to_json(config, "BertForSequenceClassification");
  }
  auto& pre_training = dynamic_cast<models::BertForPreTraining&>(model);
  return models::to_json(pre_training.bert().config(),
                         pre_training.has_next_sentence() ? "BertForPreTraining" : "BertForMaskedLM");
}

// What the model's tokens mean goes with it.
void save_vocabulary(const fs::path& folder, const Settings& settings, const DataSource& data) {
  const auto earlier = file_in_folder(settings.init_weights, kVocabularyFile);
  if (data.vocabulary) {
    data.vocabulary->save(folder / kVocabularyFile);
    data::write_file_atomically(folder / kTokenizerFile, tokenizer_config(settings.cased));
  } else if (earlier && !fs::equivalent(*settings.init_weights, folder)) {
    data::write_file_atomically(folder / kVocabularyFile, data::read_file(*earlier));
    if (const auto tokenizer = file_in_folder(settings.init_weights, kTokenizerFile))
      data::write_file_atomically(folder / kTokenizerFile, data::read_file(*tokenizer));
  } else if (!earlier) {
    fs::remove(folder / kVocabularyFile);
    fs::remove(folder / kTokenizerFile);
  }
}

}  // namespace

std::string load_initial_weights(const Settings& settings, nn::Module& model) {
  const std::string& given = *settings.init_weights;
  if (fs::is_directory(given) && !file_in_folder(given, kWeightsFile))
    core::fail("--init-weights {}: has no {}", given, kWeightsFile);
  const std::string file = file_in_folder(given, kWeightsFile).value_or(given);
  data::TensorMap weights;
  try {
    weights = data::load_safetensors(file);
  } catch (const core::Error& error) {
    core::fail("--init-weights {}", error.what());
  }
  const AdaptedWeights adapted = adapt_weights(model, {weights.begin(), weights.end()}, head_of(settings));
  if (settings.eval_only && !settings.resume && !adapted.new_head.empty())
    core::fail("--init-weights {}: cannot be evaluated on --data {}: {}", file, *settings.data, adapted.new_head);
  try {
    if (is_bert(settings)) {
      const std::string left_out = load_bert(model, adapted.state);
      return adapted.new_head + (adapted.new_head.empty() || left_out.empty() ? "" : "; ") + left_out;
    }
    model.load_state_dict(adapted.state);
    return adapted.new_head;
  } catch (const core::Error& error) {
    core::fail("--init-weights {}: do not fit model {}: {}{}", file, settings.model, error.what(),
               advice_for(settings, model, adapted.state));
  }
}

void save_pretrained(const std::string& folder, const Settings& settings, const DataSource& data, nn::Module& model) {
  const fs::path path = folder;
  fs::create_directories(path);
  data::save_safetensors(path / kWeightsFile, model.state_dict(), {{"format", "pt"}});
  data::write_file_atomically(path / kConfigFile, config_of(model));
  save_vocabulary(path, settings, data);
}

}  // namespace tandem::train
