// The settings of a training run: one field for each flag.
//
// What flags are called, what they allow and what --help says of them is in setting_table.cpp; how the command line and
// --config fill them in command_line.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/exit.h"

namespace tandem::train {

/// What an earlier run was, beside its settings.
struct RunFacts {
  std::int64_t ranks = 0;
  std::int64_t global_batch = 0;  ///< samples of an update: ranks x batch size x accumulation steps
};

/// Fields that are optional depend on others or may be absent; resolve() sets those that depend.
struct Settings {
  // Model and data.
  std::string model = "convnet";
  std::optional<std::string> model_config;
  std::optional<double> dropout;
  std::optional<std::string> stem;
  std::optional<std::int64_t> classes;
  bool predict_all = false;
  std::optional<std::string> data, data_dir;
  std::optional<std::int64_t> synthetic_samples;
  std::optional<std::int64_t> image_size, seq_length;
  std::optional<std::string> vocab, eval_data;
  std::optional<double> val_fraction;
  bool skip_bad_images = false;
  bool cased = false, sentence_pairs = false;
  std::int64_t data_threads = 1;

  // Length.
  std::int64_t batch_size = 64;
  std::int64_t accumulation_steps = 1;
  std::optional<std::int64_t> epochs, steps, eval_every;

  // Ranks.
  std::optional<std::int64_t> rank, world_size, local_rank, local_world_size;
  std::string init = "env://";
  std::optional<std::string> interface;
  std::string backend = "gloo";
  double bucket_cap_mb = 25, first_bucket_mb = 1;
  bool no_broadcast_buffers = false;
  std::string bucket_order = "reverse";
  bool no_overlap = false, find_unused_parameters = false, static_graph = false;
  std::int64_t round_robin_groups = 1;
  std::string comm_hook = "none";
  bool check_collectives = false;
  std::int64_t timeout_s = 300;

  // Optimization.
  std::optional<std::string> optimizer;
  std::optional<double> lr, momentum, weight_decay, clip_grad_norm;
  std::optional<std::string> decay;
  bool nesterov = false;
  double label_smoothing = 0;
  std::string lr_schedule = "constant";
  std::int64_t warmup_steps = 0;
  std::optional<std::int64_t> lr_steps, lr_step_size;
  std::optional<double> lr_gamma;

  // Computation.
  std::string device = "cpu";
  std::string precision = "fp32";
  bool recompute = false;
  std::optional<std::int64_t> threads;
  std::int64_t seed = 0;

  // Weights and results.
  std::optional<std::string> from;
  std::optional<std::string> init_weights, freeze, save_weights, save_model, save_grads, save_outputs;
  bool eval_only = false;

  // The run.
  std::optional<std::string> config, out, metrics, profile_out, checkpoint_dir;
  std::optional<std::int64_t> checkpoint_every;
  bool overwrite = false, resume = false, summary = false;
  std::string progress = "auto";

  // No settings of their own:
  std::optional<RunFacts> config_facts = {};  ///< of the run whose config.json --config names
  std::vector<std::string> derived = {};      ///< flags' names: left open, and set by resolve()
};

/// Sets what was left open by what it depends on (the data by the model, the rate by the optimizer, ...), and checks
/// that settings go together. A folder of --init-weights is looked into for what it brings. Throws UsageError naming
/// the flags. Resolving twice changes nothing.
void resolve(Settings& settings);

/// What --data says: "mnist" is {"mnist", ""}, "tensors:FILE" {"tensors", "FILE"}.
struct DataName {
  std::string kind, place;
};
DataName data_name(const std::string& data);

/// The stem of a ResNet for images whose shorter side is this: smaller ones would have lost all extent behind
/// ImageNet's.
inline const char* usual_stem(std::int64_t side) { return side < 64 ? "small" : "imagenet"; }

/// Families of models, which differ in what they read and in their defaults.
bool is_bert(const Settings& settings);
bool is_resnet(const Settings& settings);

/// Of the resolved `settings` on this many ranks. Throws UsageError if the batch is more than can be counted.
RunFacts run_facts(const Settings& settings, int ranks);

/// Where checkpoints are kept: --checkpoint-dir, else in --out, else nowhere.
std::optional<std::string> checkpoint_folder(const Settings& settings);

}  // namespace tandem::train
