#include "tools/train/checkpoint.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "tandem/data/safetensors.h"
#include "tools/train/bert_settings.h"
#include "tools/train/class_names.h"

namespace tandem::train {
namespace {

using core::Tensor;

constexpr const char* kFormat = "format";
constexpr const char* kFormatName = "tandem checkpoint 1";
constexpr std::size_t kKept = 3;

Tensor number(std::int64_t value) { return Tensor::from<std::int64_t>({value}, {}); }

std::int64_t number(const data::TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.dtype() != core::DType::int64 || found->second.numel() != 1)
    core::fail("needs \"{}\", one int64", name);
  const std::int64_t value = found->second.to_vector<std::int64_t>().front();
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) core::fail("\"{}\" is {}", name, value);
  return value;
}

void append(data::NamedTensors& all, const std::string& prefix, const core::StateDict& part) {
  for (const auto& [name, tensor] : part) all.emplace_back(prefix + name, tensor);
}

core::StateDict take(const data::TensorMap& tensors, const std::string& prefix) {
  core::StateDict part;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) part.emplace_back(name.substr(prefix.size()), tensor);
  return part;
}

void check_identity(data::Metadata stored, const RunIdentity& run) {
  if (stored[kFormat] != kFormatName) core::fail("is no checkpoint of train");
  for (const auto& [name, value] : run)
    if (stored[name] != value) core::fail("comes from a run with {} {}, this one has {}", name, stored[name], value);
}

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

// step-0000000100.safetensors, and nothing that somebody else put there under a similar name.
bool is_checkpoint(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return name.size() == 10 && name.find_first_not_of("0123456789") == name.npos;
}

// What a run that was killed while it wrote a checkpoint left (data::AtomicFile).
bool is_leftover(std::string_view name) {
  const std::size_t end = name.find(".safetensors.");
  return end != name.npos && is_checkpoint(name.substr(0, end + kSuffix.size())) && name.ends_with(".tmp");
}

/// Oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (is_checkpoint(entry.path().filename().string())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

RunIdentity run_identity(const Settings& settings, int ranks, const DataSource& data) {
  RunIdentity run{{"--model", settings.model},
                  {"model configuration", model_fingerprint(settings)},
                  {"--data", data_name(*settings.data).kind},  // a file may be moved
                  {"samples", std::to_string(data.train->size())},
                  {"training data", data.fingerprint},
                  {"ranks", std::to_string(ranks)},
                  {"--batch-size", std::to_string(settings.batch_size)},
                  {"--accumulation-steps", std::to_string(settings.accumulation_steps)},
                  {"--optimizer", *settings.optimizer},
                  {"--freeze", settings.freeze.value_or("nothing")},
                  {"--precision", settings.precision},
                  {"--seed", std::to_string(settings.seed)}};
  run.merge(class_names_metadata(settings, data));
  return run;
}

void save_checkpoint(const std::filesystem::path& path, const TrainingState& state, const RunIdentity& run) {
  data::NamedTensors tensors;
  append(tensors, "model.", state.model().state_dict());
  append(tensors, "optimizer.", state.optimizer->state_dict());
  append(tensors, "schedule.", state.schedule->state_dict());
  tensors.emplace_back("sampler.epoch", number(state.position.epoch));
  tensors.emplace_back("sampler.micro_step", number(state.position.micro_step));
  data::Metadata metadata(run.begin(), run.end());
  metadata[kFormat] = kFormatName;
  data::save_safetensors(path, tensors, metadata);
}

void load_checkpoint(const std::filesystem::path& path, TrainingState& state, const RunIdentity& run) {
  data::Metadata metadata;
  const data::TensorMap tensors = data::load_safetensors(path, &metadata);
  try {
    check_identity(metadata, run);
    state.model().load_state_dict(take(tensors, "model."));
    state.optimizer->load_state_dict(take(tensors, "optimizer."));
    number(tensors, "schedule.step");
    state.schedule->load_state_dict(take(tensors, "schedule."));
    state.position = {.epoch = static_cast<std::uint32_t>(number(tensors, "sampler.epoch")),
                      .micro_step = number(tensors, "sampler.micro_step")};
  } catch (const core::Error& error) {
    core::fail("{}: {}", path.string(), error.what());
  }
}

CheckpointFolder::CheckpointFolder(const std::filesystem::path& folder, bool may_hold_some) : folder_(folder) {
  if (!may_hold_some && newest_checkpoint(folder_.path()))
    core::fail("{}: holds the checkpoints of a run: give --resume to continue it, --overwrite to replace it",
               folder.string());
}

std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder) {
  const auto files = list_checkpoints(folder);
  if (files.empty()) return std::nullopt;
  return files.back();
}

void CheckpointFolder::save(const TrainingState& state, const RunIdentity& run) {
  if (state.step() == saved_step_) return;
  save_checkpoint(folder_.path() / fmt::format("step-{:010}.safetensors", state.step()), state, run);
  saved_step_ = state.step();
  const auto files = list_checkpoints(folder_.path());
  for (std::size_t i = 0; i + kKept < files.size(); ++i) std::filesystem::remove(files[i]);
}

void CheckpointFolder::keep() {
  folder_.keep();
  std::vector<std::filesystem::path> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    if (is_leftover(entry.path().filename().string())) leftovers.push_back(entry.path());
  for (const auto& file : leftovers) std::filesystem::remove(file);
}

void CheckpointFolder::remove_all() const {
  for (const auto& file : list_checkpoints(folder_.path())) std::filesystem::remove(file);
}

}  // namespace tandem::train
