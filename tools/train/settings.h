// The settings of a training run: one field for each flag.
//
// What flags are called, what they allow and what --help says of them is in setting_table.cpp; how the command line and
// --config fill them in command_line.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/exit.h"

namespace tandem::train {

/// Fields that are optional depend on others or may be absent; resolve() sets those that depend.
struct Settings {
  // Model and data.
  std::string model = "convnet";
  std::optional<double> dropout;
  std::optional<std::string> data, data_dir;
  std::optional<std::int64_t> synthetic_samples;

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
  std::string optimizer = "sgd";
  std::optional<double> lr, momentum, weight_decay, clip_grad_norm;
  std::optional<std::string> decay;
  bool nesterov = false;
  double label_smoothing = 0;
  std::string lr_schedule = "constant";
  std::int64_t warmup_steps = 0;
  std::optional<std::int64_t> lr_step_size;
  std::optional<double> lr_gamma;

  // Computation.
  std::string device = "cpu";
  std::string precision = "fp32";
  std::optional<std::int64_t> threads;
  std::int64_t seed = 0;

  // Weights and results.
  std::optional<std::string> init_weights, save_weights, save_grads, save_outputs;
  bool eval_only = false;

  // The run.
  std::optional<std::string> config, out, metrics, profile_out, checkpoint_dir;
  std::optional<std::int64_t> checkpoint_every;
  bool overwrite = false, resume = false, summary = false;
  std::string progress = "auto";
};

/// Sets what was left open by what it depends on (the data by the model, the rate by the optimizer, ...), and checks
/// that settings go together. Throws UsageError naming the flags. Resolving twice changes nothing.
void resolve(Settings& settings);

/// FILE of `--data tensors:FILE`, else none.
std::optional<std::string> tensors_file(const std::string& data);

/// Where checkpoints are kept: --checkpoint-dir, else in --out, else nowhere.
std::optional<std::string> checkpoint_folder(const Settings& settings);

}  // namespace tandem::train
