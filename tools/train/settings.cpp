#include "tools/train/settings.h"

#include <filesystem>
#include <map>
#include <utility>

#include "tandem/data/fashion_mnist.h"

namespace tandem::train {
namespace {

void resolve_data(Settings& s) {
  if (!s.data) s.data = "fashion-mnist";
  const bool named = *s.data == "fashion-mnist" || *s.data == "mnist" || *s.data == "cifar10";
  if (*s.data == "fashion-mnist" && !s.data_dir) s.data_dir = data::kFashionMnistFolder;
  if (named && !s.data_dir) fail_usage("--data {} needs --data-dir: the folder with its files", *s.data);
  if (!named && s.data_dir)
    fail_usage("--data-dir is for fashion-mnist, mnist and cifar10, not for --data {}", *s.data);
  if (*s.data == "synthetic") {
    if (!s.synthetic_samples) s.synthetic_samples = 4096;
  } else if (s.synthetic_samples) {
    fail_usage("--synthetic-samples is for --data synthetic, not for --data {}", *s.data);
  }
}

struct OptimizerDefaults {
  double lr, weight_decay;
  const char* decay;
};

OptimizerDefaults optimizer_defaults(const std::string& optimizer) {
  if (optimizer == "adam") return {.lr = 0.001, .weight_decay = 0, .decay = "all"};
  if (optimizer == "adamw") return {.lr = 0.001, .weight_decay = 0.01, .decay = "all"};
  if (optimizer == "lars") return {.lr = 0.1, .weight_decay = 1e-4, .decay = "matrices"};
  if (optimizer == "lamb") return {.lr = 0.001, .weight_decay = 0.01, .decay = "matrices"};
  return {.lr = 0.01, .weight_decay = 0, .decay = "all"};
}

void resolve_optimizer(Settings& s) {
  const OptimizerDefaults defaults = optimizer_defaults(s.optimizer);
  if (!s.lr) s.lr = defaults.lr;
  if (!s.weight_decay) s.weight_decay = defaults.weight_decay;
  if (!s.decay) s.decay = defaults.decay;
  if (s.optimizer == "sgd" || s.optimizer == "lars") {
    if (!s.momentum) s.momentum = 0.9;
    if (s.nesterov && *s.momentum == 0) fail_usage("--nesterov needs a --momentum above 0");
  } else if (s.momentum) {
    fail_usage("--momentum is for --optimizer sgd and lars, not for {}", s.optimizer);
  }
  if (s.nesterov && s.optimizer != "sgd") fail_usage("--nesterov is for --optimizer sgd, not for {}", s.optimizer);
}

void resolve_schedule(Settings& s) {
  if (s.lr_schedule == "step") {
    if (!s.lr_step_size) fail_usage("--lr-schedule step needs --lr-step-size: the updates after which the rate falls");
    if (!s.lr_gamma) s.lr_gamma = 0.1;
  } else {
    if (s.lr_step_size) fail_usage("--lr-step-size is for --lr-schedule step, not for {}", s.lr_schedule);
    if (s.lr_gamma) fail_usage("--lr-gamma is for --lr-schedule step, not for {}", s.lr_schedule);
  }
}

void check_checkpoints(const Settings& s) {
  const bool has_folder = checkpoint_folder(s).has_value();
  if (s.checkpoint_every && !has_folder) fail_usage("--checkpoint-every needs --checkpoint-dir or --out");
  if (s.resume && !has_folder) fail_usage("--resume needs --checkpoint-dir or --out: where the checkpoints are");
  if (s.resume && s.overwrite) fail_usage("--resume and --overwrite exclude each other: continue a run, or replace it");
  if (s.resume && s.init_weights)
    fail_usage("--resume and --init-weights exclude each other: the weights are the checkpoint's");
}

// Each would replace what the other wrote.
void check_results(const Settings& s) {
  const std::pair<const char*, const std::optional<std::string>&> files[] = {{"--metrics", s.metrics},
                                                                             {"--profile-out", s.profile_out},
                                                                             {"--save-weights", s.save_weights},
                                                                             {"--save-grads", s.save_grads},
                                                                             {"--save-outputs", s.save_outputs}};
  std::map<std::filesystem::path, const char*> taken;
  for (const auto& [flag, file] : files) {
    if (!file) continue;
    const auto [found, is_new] = taken.emplace(std::filesystem::path(*file).lexically_normal(), flag);
    if (!is_new) fail_usage("{} and {} name the same file, {}", found->second, flag, *file);
  }
}

void check_eval_only(const Settings& s) {
  if (!s.eval_only) return;
  if (s.save_grads) fail_usage("--save-grads needs training, which --eval-only leaves out");
  if (s.checkpoint_every) fail_usage("--checkpoint-every needs training, which --eval-only leaves out");
  if (s.checkpoint_dir && !s.resume) fail_usage("--eval-only takes the weights of --checkpoint-dir only with --resume");
  if (s.resume && s.out)
    fail_usage(
        "--eval-only --resume takes the checkpoints of --checkpoint-dir; with --out it would write into the run's "
        "folder");
}

}  // namespace

std::optional<std::string> tensors_file(const std::string& data) {
  constexpr std::string_view kPrefix = "tensors:";
  if (!data.starts_with(kPrefix)) return std::nullopt;
  return data.substr(kPrefix.size());
}

std::optional<std::string> checkpoint_folder(const Settings& settings) {
  if (settings.checkpoint_dir || !settings.out) return settings.checkpoint_dir;
  return *settings.out + "/checkpoints";
}

void resolve(Settings& settings) {
  resolve_data(settings);
  if (!settings.epochs && !settings.steps) settings.epochs = 1;
  resolve_optimizer(settings);
  resolve_schedule(settings);
  check_checkpoints(settings);
  check_eval_only(settings);
  check_results(settings);
}

}  // namespace tandem::train
