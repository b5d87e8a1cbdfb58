#include "tools/bench/step.h"

#include <fmt/core.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "tandem/core/allocator.h"
#include "tandem/core/ops/conv2d.h"
#include "tandem/core/parallel.h"
#include "tandem/core/recorder.h"
#include "tandem/core/thread_count.h"
#include "tandem/models/bert_config.h"
#include "tandem/optim/make_optimizer.h"
#include "tools/bench/alone.h"
#include "tools/bench/machine.h"
#include "tools/bench/operator_table.h"

namespace tandem::bench {
namespace {

constexpr double kMiB = 1 << 20;

// As given; what is left open depends on the model.
struct StepFlags {
  StepSettings settings;
  std::int64_t steps = 0, warmup = 0;  // 0: not given
  std::optional<std::string> optimizer;
  std::optional<double> momentum;
  std::optional<std::int64_t> image_size, seq_length;
  std::optional<std::string> predict;
  std::string precision = "fp32";
  bool ddp = false;
};

void report_times(const StepTimes& times, Json& json) {
  std::vector<Row> rows;
  const std::pair<const char*, const std::vector<double>*> parts[] = {{"step", &times.total},
                                                                      {"forward", &times.forward},
                                                                      {"backward", &times.backward},
                                                                      {"optimizer", &times.optimizer}};
  for (const auto& [name, values] : parts) {
    const double middle = median(*values), least = *std::min_element(values->begin(), values->end());
    rows.push_back({name, fmt::format("{:.4f}", middle), fmt::format("{:.4f}", least)});
    json[std::string(name) + "_ms"] = middle;
    json[std::string(name) + "_min_ms"] = least;
  }
  print_table({"part", "median ms", "least ms"}, rows);
}

// What the process did for its steps beside computing.
class Resources {
 public:
  Resources() : start_rss_(peak_resident_bytes()) {}
  void begin() {
    allocator_ = core::allocator(core::kCpu).statistics();
    reorders_ = core::reorder_statistics();
  }

  void report(const StepSettings& settings, Json& json) const {
    const core::AllocatorStatistics now = core::allocator(core::kCpu).statistics();
    const auto steps = static_cast<double>(settings.steps + settings.warmup);
    const double allocations = static_cast<double>(now.allocations - allocator_.allocations) / steps;
    const double fresh = allocations - static_cast<double>(now.hits - allocator_.hits) / steps;
    json["samples_per_s"] = static_cast<double>(settings.workload.batch_size) / json["step_ms"].get<double>() * 1e3;
    json["allocations_per_step"] = allocations;
    json["fresh_allocations_per_step"] = fresh;
    json["tensor_peak_mb"] = static_cast<double>(now.peak) / kMiB;
    json["activation_reorders_per_step"] =
        static_cast<double>(core::reorder_statistics().activations - reorders_.activations) / steps;
    json["peak_rss_mb"] = static_cast<double>(peak_resident_bytes()) / kMiB;
    json["start_rss_mb"] = static_cast<double>(start_rss_) / kMiB;
    fmt::print(
        "\n{:.1f} samples/s; {:.1f} allocations a step, {:.2f} of them fresh; tensors {:.1f} MiB at most, process "
        "{:.1f} MiB\n",
        json["samples_per_s"].get<double>(), allocations, fresh, json["tensor_peak_mb"].get<double>(),
        json["peak_rss_mb"].get<double>());
  }

 private:
  std::size_t start_rss_;
  core::AllocatorStatistics allocator_;
  core::ReorderStatistics reorders_;
};

// After the timed steps, since recording costs a little, and measuring the machine takes memory.
Json record_operators(TrainingStep& step, const StepSettings& settings) {
  const std::int64_t steps = std::min<std::int64_t>(settings.steps, 20);
  core::recorder::drain();
  core::recorder::enable(true);
  step.run(steps, nullptr);
  core::recorder::enable(false);
  std::vector<core::Event> events = core::recorder::drain();
  const MachineLimits limits{.flops = measure_peak_flops(settings.workload.activations), .bytes = measure_bandwidth()};
  const std::vector<OperatorRow> rows = operator_rows(std::move(events), steps, limits);
  print_operators(rows, limits);
  return operators_as_json(rows, limits);
}

void run_step(const StepSettings& settings) {
  Resources resources;
  TrainingStep step(settings.workload, settings.optimizer);
  print_start(settings, step.workload());
  resources.begin();
  step.run(settings.warmup, nullptr);
  core::allocator(core::kCpu).reset_peak();
  StepTimes times;
  step.run(settings.steps, &times);

  Json json = describe_step(settings);
  report_times(times, json);
  resources.report(settings, json);
  json["last_loss"] = step.last_loss();
  if (settings.operators) json["operators"] = record_operators(step, settings);
  write_json(settings.json, json);
}

[[noreturn]] void wrong_usage(const char* flag, const std::string& why) { throw CLI::ValidationError(flag, why); }

StepSettings complete(const StepFlags& flags) {
  StepSettings settings = flags.settings;
  WorkloadSettings& workload = settings.workload;
  const WorkloadDefaults& defaults = defaults_of(workload.model);
  if (flags.image_size && !workload.model.starts_with("resnet"))
    wrong_usage("--image-size", workload.model + " takes no images of any size, only ResNets do");
  const bool is_bert = workload.model.starts_with("bert-");
  if (flags.seq_length && !is_bert) wrong_usage("--seq-length", workload.model + " takes no sequences, only BERTs do");
  if (flags.predict && !is_bert) wrong_usage("--predict", workload.model + " predicts no tokens, only BERTs do");
  if (workload.recompute && !is_bert && !workload.model.starts_with("resnet"))
    wrong_usage("--recompute", workload.model + " has nothing to compute again, only ResNets and BERTs have");
  if (is_bert) {
    const std::int64_t positions = models::bert_config(workload.model.substr(5)).max_position_embeddings;
    if (flags.seq_length > positions)
      wrong_usage("--seq-length",
                  fmt::format("{} is more than the {} positions of {}", *flags.seq_length, positions, workload.model));
  }
  if (workload.batch_size == 0) workload.batch_size = defaults.batch_size;
  workload.image_size = flags.image_size.value_or(workload.image_size);
  workload.seq_length = flags.seq_length.value_or(workload.seq_length);
  workload.predict = flags.predict == "masked" ? Predict::masked : Predict::all;
  if (flags.precision == "bf16") workload.activations = core::DType::bfloat16;
  settings.optimizer.name = flags.optimizer.value_or(defaults.optimizer);
  const bool has_momentum = optim::has_momentum(settings.optimizer.name);
  if (flags.momentum && !has_momentum)
    wrong_usage("--momentum", settings.optimizer.name + " has none, only sgd and lars have");
  if (has_momentum) settings.optimizer.momentum = flags.momentum.value_or(defaults.momentum);
  settings.steps = flags.steps > 0 ? flags.steps : defaults.steps;
  settings.warmup = flags.warmup > 0 ? flags.warmup : std::max<std::int64_t>(3, settings.steps / 10);
  return settings;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const WorkloadDefaults& defaults : workload_defaults()) names.push_back(defaults.model);
  return names;
}

}  // namespace

void print_start(const StepSettings& settings, const Workload& workload, int ranks) {
  const OptimizerSettings& optimizer = settings.optimizer;
  print_settings(
      {{"model", settings.workload.model},
       {"batch", workload.describe_batch()},
       {"activations", fmt::format("{}{}", core::name(settings.workload.activations),
                                   settings.workload.recompute ? ", computed again in backward" : "")},
       {"optimizer",
        optimizer.momentum > 0 ? fmt::format("{}, momentum {}", optimizer.name, optimizer.momentum) : optimizer.name},
       {"threads", std::to_string(settings.threads)},
       {"ranks", fmt::format("{}{}", ranks, ranks > 1 ? ", each with the batch and the threads above" : "")},
       {"steps", fmt::format("{} after {} not timed", settings.steps, settings.warmup)}});
}

Json describe_step(const StepSettings& settings) {
  return {{"machine", describe_machine()},
          {"model", settings.workload.model},
          {"batch_size", settings.workload.batch_size},
          {"precision", settings.workload.activations == core::DType::bfloat16 ? "bf16" : "fp32"},
          {"recompute", settings.workload.recompute},
          {"optimizer", settings.optimizer.name},
          {"threads", settings.threads},
          {"steps", settings.steps}};
}

void add_step(CLI::App& app) {
  auto flags = std::make_shared<StepFlags>();
  flags->settings.threads = core::threads_of_rank(std::nullopt, 1);
  CLI::App* command =
      app.add_subcommand("step", "Time of a training step on one fixed batch: forward, backward, optimizer");
  command->add_option("--model", flags->settings.workload.model)
      ->check(CLI::IsMember(model_names()))
      ->capture_default_str();
  command
      ->add_option("--batch-size", flags->settings.workload.batch_size,
                   "Default by model: 64; ResNets 16; BERTs and tiny-mlp 8")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--image-size", flags->image_size, "Height and width, of ResNets; default 224")
      ->check(CLI::Range(1, 1 << 14));
  command->add_option("--seq-length", flags->seq_length, "Tokens of a sequence, of BERTs; default 128")
      ->check(CLI::Range(1, 1 << 16));
  command->add_option("--predict", flags->predict, "Of BERTs: tokens everywhere (default), or 15 % of them")
      ->check(CLI::IsMember({"all", "masked"}));
  command->add_option("--optimizer", flags->optimizer, "Default by model: sgd; BERTs adamw")
      ->check(CLI::IsMember(optim::optimizer_names()));
  command->add_option("--momentum", flags->momentum, "For sgd and lars; default by model: 0; ResNets 0.9")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--precision", flags->precision, "Of activations and products; weights stay fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command->add_flag("--recompute", flags->settings.workload.recompute,
                    "Of ResNets and BERTs: normalised and GELU activations again in backward");
  command->add_option("--threads", flags->settings.threads)->check(CLI::Range(1, 1024))->capture_default_str();
  command->add_option("--steps", flags->steps, "Timed steps; default by model")->check(CLI::Range(1, 1 << 30));
  command->add_option("--warmup", flags->warmup, "Steps before them; default a tenth, 3 at least")
      ->check(CLI::Range(1, 1 << 30));
  command->add_flag("--operators", flags->settings.operators,
                    "Records some more steps: each operator and phase against its floor");
  command->add_option("--json", flags->settings.json, "Write the results to this file");
  command
      ->add_flag("--ddp", flags->ddp,
                 "What DistributedDataParallel costs: the step bare and wrapped, on one rank, or several under launch")
      ->excludes("--operators");
  command->callback([flags] {
    const StepSettings settings = complete(*flags);
    core::set_num_threads(settings.threads);
    if (!flags->ddp) check_is_alone("step", "leave the launcher out, or give --ddp");
    flags->ddp ? run_beside_ddp(settings) : run_step(settings);
  });
}

}  // namespace tandem::bench
