#include "tools/train/files/run_folder.h"

#include "tandem/core/files/file.h"
#include "tools/train/restart.h"
#include "tools/train/settings/command_line.h"

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

void check_out(const Settings& settings) {
  if (!settings.out || settings.resume || settings.overwrite) return;
  std::error_code error;
  if (fs::is_directory(*settings.out, error) && !fs::is_empty(*settings.out, error))
    core::fail("--out {}: holds files already: give --resume to continue the run, --overwrite to replace it",
               *settings.out);
}

// Errors of `action` begin with the flag.
template <class Action>
void naming(const std::string& flag, Action&& action) {
  try {
    action();
  } catch (const core::Error& failure) {
    core::fail("{} {}", flag, failure.what());
  }
}

// Throws where the file could not be made or replaced; leaves no trace.
void try_file(const std::string& flag, const std::optional<std::string>& path) {
  if (!path) return;
  std::error_code error;
  if ((flag == "--metrics" || flag == "--profile-out") && fs::is_other(*path, error)) return;  // a pipe, a terminal
  naming(flag, [&] {
    if (flag == "--metrics") const WriteLock free(*path);
    const core::AtomicFile probe(*path);
  });
}

// The same for files in a folder that may be missing.
void try_folder(const std::string& flag, const std::optional<std::string>& path) {
  if (!path) return;
  naming(flag, [&] {
    const CreatedFolder folder(*path);
    const core::AtomicFile probe(folder.path() / "config.json");
  });
}

nlohmann::ordered_json versions() {
  return {{"tandem", TANDEM_VERSION},
          {"compiler", __VERSION__},
          {"onednn", TANDEM_DNNL_VERSION},
          {"eigen", TANDEM_EIGEN_VERSION}};
}

}  // namespace

RunFolder::RunFolder(const Settings& settings) : settings_(settings) {
  check_out(settings);
  if (settings.out) naming("--out", [&] { open_out(); });
  if (const auto folder = checkpoint_folder(settings); folder && !settings.eval_only)
    naming(settings.checkpoint_dir ? "--checkpoint-dir" : "--out", [&] { open_checkpoints(*folder); });
  try_file("--metrics", settings.metrics);
  try_file("--profile-out", settings.profile_out);
  try_file("--save-weights", settings.save_weights);
  try_folder("--save-model", settings.save_model);
  try_file("--save-grads", settings.save_grads);
  try_file("--save-outputs", settings.save_outputs);
}

void RunFolder::open_out() {
  out_.emplace(*settings_.out);
  try {
    locks_.emplace_back(*settings_.out);
  } catch (...) {
    out_->keep();  // it is the other run's now
    throw;
  }
}

void RunFolder::open_checkpoints(const std::string& folder) {
  checkpoints_.emplace(folder, settings_.resume || settings_.overwrite);
  if (!out_ || !fs::equivalent(out_->path(), checkpoints_->path())) locks_.emplace_back(folder);
}

Metrics RunFolder::begin(std::int64_t step, const Settings& chosen, const RunFacts& facts, StopSignal& stop) {
  std::vector<fs::path> files;
  if (out_) {
    nlohmann::ordered_json config = to_json(chosen);
    config[kFacts] = {{"ranks", facts.ranks},
                      {"global_batch", facts.global_batch},
                      {"threads", *settings_.threads},
                      {kDerived, chosen.derived},
                      {"versions", versions()}};
    core::write_file_atomically(out_->path() / "config.json", config.dump(2) + '\n');
    files.push_back(out_->path() / "metrics.jsonl");
  }
  if (settings_.metrics) files.emplace_back(*settings_.metrics);
  Metrics metrics(files, step, stop);
  if (checkpoints_) {
    if (settings_.overwrite) checkpoints_->remove_all();
    note_beginning(checkpoints_->path());
    checkpoints_->keep(step);
  }
  if (out_) out_->keep();
  return metrics;
}

}  // namespace tandem::train
