#include "tools/train/pretrained.h"

#include <algorithm>
#include <filesystem>

#include "tandem/data/file.h"
#include "tandem/data/safetensors.h"
#include "tandem/models/bert_heads.h"
#include "tandem/models/bert_weights.h"
#include "tools/train/bert_settings.h"

namespace tandem::train {
namespace {

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
  if (!all_heads(difference.missing) || !all_heads(difference.unexpected))
    core::fail("load_state_dict: {}", difference.str());
  return difference.empty() ? "" : difference.str();
}

// Hugging Face's name of the class.
std::string architecture(const nn::Module& model) {
  const auto* pre_training = dynamic_cast<const models::BertForPreTraining*>(&model);
  if (!pre_training) return "BertForSequenceClassification";
  return pre_training->has_next_sentence() ? "BertForPreTraining" : "BertForMaskedLM";
}

}  // namespace

std::optional<std::string> file_in_folder(const std::optional<std::string>& path, const char* name) {
  std::error_code error;
  if (!path || !std::filesystem::is_directory(*path, error)) return std::nullopt;
  const std::filesystem::path file = std::filesystem::path(*path) / name;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  return file.string();
}

std::string load_initial_weights(const Settings& settings, nn::Module& model) {
  const std::string file = file_in_folder(settings.init_weights, "model.safetensors").value_or(*settings.init_weights);
  if (std::filesystem::is_directory(file)) core::fail("--init-weights {}: has no model.safetensors", file);
  const data::TensorMap weights = data::load_safetensors(file);
  try {
    const core::StateDict state(weights.begin(), weights.end());
    if (is_bert(settings)) return load_bert(model, state);
    model.load_state_dict(state);
    return "";
  } catch (const core::Error& error) {
    core::fail("--init-weights {}: do not fit model {}: {}", file, settings.model, error.what());
  }
}

void save_pretrained(const std::string& folder, const Settings& settings, const DataSource& data, nn::Module& model) {
  const std::filesystem::path path = folder;
  std::filesystem::create_directories(path);
  data::save_safetensors(path / "model.safetensors", model.state_dict(), {{"format", "pt"}});
  data::write_file_atomically(path / "config.json", models::to_json(bert_config_of(settings), architecture(model)));
  if (data.vocabulary) data.vocabulary->save(path / "vocab.txt");
}

}  // namespace tandem::train
