#include "tools/train/files/finished_run.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tandem/core/files/file.h"
#include "tandem/train/checkpoint_folder.h"
#include "tools/train/files/class_names.h"
#include "tools/train/files/pretrained.h"
#include "tools/train/files/pretrained_folder.h"
#include "tools/train/settings/command_line.h"
#include "tools/train/settings/text_json.h"

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelConfigFile = "model_config.json";
constexpr std::string_view kModelPrefix = "model.";

bool is_text(const std::string& kind) { return kind == "text" || kind == "wordnet"; }

// Where the run said that its checkpoints are, if not in its folder.
std::optional<std::string> recorded_checkpoint_folder(const fs::path& run) {
  const auto config = nlohmann::json::parse(core::read_file(run / kConfigFile), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains(kOutputs) || !config[kOutputs].is_object()) return std::nullopt;
  const auto found = config[kOutputs].find("checkpoint-dir");
  return found == config[kOutputs].end() ? std::nullopt : text_from_json(*found);
}

}  // namespace

void keep_for_later(const Settings& settings, const DataSource& data, nn::Module& model) {
  if (!settings.out) return;
  const fs::path run = *settings.out;
  if (data.tokenizer)
    core::write_file_atomically(run / data::kTokenizerFile,
                                data::to_tokenizer_json(data.tokenizer->vocabulary, data.tokenizer->words));
  if (is_bert(settings)) core::write_file_atomically(run / kModelConfigFile, models::model_config_json(model));
}

void adopt_run(const std::string& run, const std::optional<std::string>& data, Settings& s) {
  s.init_weights = s.freeze = std::nullopt;
  s.eval_every = std::nullopt;
  if (s.model == "bert") {
    if (const auto file = file_in_folder(run, kModelConfigFile)) s.model_config = *file;
  }
  const std::string before = s.data ? data_name(*s.data).kind : "", kind = data ? data_name(*data).kind : before;
  if (const auto words = file_in_folder(run, data::kTokenizerFile)) s.vocab = *words;
  if (kind == before) return;
  s.data_dir = std::nullopt;
  s.synthetic_samples = std::nullopt;
  if (kind != "imagefolder") s.image_size = std::nullopt;
  if (is_text(kind)) return;
  s.vocab = s.eval_data = std::nullopt;
  s.seq_length = std::nullopt;
  s.cased = s.sentence_pairs = false;
}

StoredWeights weights_of_run(const std::string& run) {
  const fs::path usual = fs::path(run) / "checkpoints";
  auto newest = read_newest_checkpoint(usual);
  if (!newest)
    if (const auto other = recorded_checkpoint_folder(run)) newest = read_newest_checkpoint(*other);
  if (!newest) core::fail("--from {}: has no checkpoint in {}", run, usual.string());
  StoredWeights weights{.file = newest->path.string(),
                        .state = {},
                        .metadata = std::move(newest->contents.metadata),
                        .damaged = std::move(newest->damaged)};
  for (const auto& [name, tensor] : newest->contents.tensors)
    if (name.starts_with(kModelPrefix)) weights.state.emplace_back(name.substr(kModelPrefix.size()), tensor);
  return weights;
}

StoredWeights weights_of_file(const std::string& path) {
  if (fs::is_directory(path) && !file_in_folder(path, kWeightsFile))
    core::fail("--weights {}: has no {}", path, kWeightsFile);
  StoredWeights weights{
      .file = file_in_folder(path, kWeightsFile).value_or(path), .state = {}, .metadata = {}, .damaged = {}};
  for (auto& [name, tensor] : core::load_safetensors(weights.file, &weights.metadata))
    weights.state.emplace_back(name, tensor);
  return weights;
}

const core::Tensor* find_weight(const StoredWeights& weights, const std::string& name) {
  for (const auto& [its_name, tensor] : weights.state)
    if (its_name == name || its_name == "bert." + name || its_name == "module." + name) return &tensor;
  return nullptr;
}

std::vector<std::string> class_names(const StoredWeights& weights) {
  const auto found = weights.metadata.find(kClassesKey);
  if (found == weights.metadata.end()) return {};
  const auto json = nlohmann::json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), [](const auto& name) { return name.is_string(); }))
    core::fail("{}: metadata \"{}\" is no JSON array of names", weights.file, kClassesKey);
  return json.get<std::vector<std::string>>();
}

void fit_settings(const StoredWeights& weights, Settings& settings) {
  const bool resnet = is_resnet(settings);
  if (!resnet && !is_bert(settings)) return;
  if (const auto* head = find_weight(weights, resnet ? "fc.weight" : "classifier.weight"); head && head->rank() == 2)
    settings.classes = head->size(0);
  if (const auto* first = find_weight(weights, "conv1.weight"); resnet && first && first->rank() == 4)
    settings.stem = first->size(2) == 7 ? "imagenet" : "small";
}

void check_class_names(const StoredWeights& weights, const Settings& settings, const DataSource& data) {
  const std::vector<std::string> names = class_names(weights);
  if (!names.empty() && !data.class_names.empty() && names != data.class_names)
    core::fail("--data {}: has the classes {}, the weights of {} tell apart {}", *settings.data,
               fmt::join(data.class_names, ", "), weights.file, fmt::join(names, ", "));
}

}  // namespace tandem::train
