#include "tools/bench/step.h"

#include <chrono>
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <tuple>

#include "tandem/autograd/engine.h"
#include "tandem/core/allocator.h"
#include "tandem/core/ops/conv2d.h"
#include "tandem/core/parallel.h"
#include "tandem/distributed/distributed_data_parallel.h"
#include "tandem/distributed/world.h"
#include "tandem/models/model_zoo.h"
#include "tandem/nn/activation.h"
#include "tandem/nn/linear.h"
#include "tandem/nn/loss.h"
#include "tandem/nn/sequential.h"
#include "tandem/optim/adam.h"
#include "tandem/optim/sgd.h"
#include "tools/bench/machine.h"
#include "tools/bench/report.h"

namespace tandem::bench {
namespace {

using autograd::Variable;
using core::Shape;
using core::Tensor;
using Clock = std::chrono::steady_clock;

struct StepSettings {
  std::string model = "convnet", optimizer = "sgd", json;
  std::int64_t batch_size = 0, steps = 0, warmup = 0;  // 0: by model
  double momentum = 0;
  int threads = core::num_threads();
  bool ddp = false;
};

/// What is usual for each model.
struct ModelDefaults {
  const char* name;
  std::int64_t batch_size, steps;
  Shape sample;
};

const ModelDefaults& defaults_of(const std::string& name) {
  static const ModelDefaults all[] = {{"tiny-mlp", 8, 20000, {16}},
                                      {"mlp", 64, 500, {784}},
                                      {"mlp-large", 64, 20, {784}},
                                      {"convnet", 64, 40, {1, 28, 28}}};
  for (const ModelDefaults& defaults : all)
    if (name == defaults.name) return defaults;
  core::fail("bench: no model '{}'", name);
}

// So small that only bookkeeping is measured.
std::shared_ptr<nn::Module> make_tiny_mlp() {
  core::Generator random(0);
  auto net = std::make_shared<nn::Sequential>();
  net->add<nn::Linear>(16, 32, random)
      .add<nn::ReLU>()
      .add<nn::Linear>(32, 32, random)
      .add<nn::ReLU>()
      .add<nn::Linear>(32, 10, random);
  return net;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const StepSettings& settings, std::vector<Variable> parameters) {
  const std::string& name = settings.optimizer;
  if (name == "sgd")
    return std::make_unique<optim::Sgd>(std::move(parameters),
                                        optim::SgdOptions{.lr = 0.01, .momentum = settings.momentum});
  return std::make_unique<optim::Adam>(std::move(parameters),
                                       optim::AdamOptions{.lr = 1e-3, .decoupled_weight_decay = name == "adamw"});
}

struct StepTimes {
  std::vector<double> total, forward, backward, optimizer;  // milliseconds

  void add(Clock::time_point begin, Clock::time_point forwarded, Clock::time_point backwarded, Clock::time_point end) {
    const auto ms = [](Clock::duration duration) {
      return std::chrono::duration<double, std::milli>(duration).count();
    };
    total.push_back(ms(end - begin));
    forward.push_back(ms(forwarded - begin));
    backward.push_back(ms(backwarded - forwarded));
    optimizer.push_back(ms(end - backwarded));
  }
};

class StepBench {
 public:
  explicit StepBench(const StepSettings& settings)
      : settings_(settings),
        model_(settings.model == "tiny-mlp" ? make_tiny_mlp() : models::make_model(settings.model)),
        optimizer_(make_optimizer(settings, model_->parameters())) {
    Shape shape{settings.batch_size};
    for (const std::int64_t size : defaults_of(settings.model).sample) shape.push_back(size);
    input_ = Tensor::empty(shape);
    core::fill_uniform(input_, -1, 1, core::RandomContext{.seed = 1}.stream(0));
    std::vector<std::int64_t> target(static_cast<std::size_t>(settings.batch_size));
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = static_cast<std::int64_t>(i % 10);
    target_ = Tensor::from(target);
  }

  StepTimes run() {
    for (std::int64_t i = 0; i < settings_.warmup; ++i) one_step(nullptr);
    core::cpu_allocator().reset_peak();
    StepTimes times;
    for (std::int64_t i = 0; i < settings_.steps; ++i) one_step(&times);
    return times;
  }

  void run(std::int64_t steps, StepTimes* times) {
    for (std::int64_t i = 0; i < steps; ++i) one_step(times);
  }
  /// From now on the model is one rank's copy.
  void wrap(distributed::World& world) { ddp_.emplace(*model_, world.make_group("bench")); }

  double last_loss() const { return last_loss_; }

 private:
  Variable forward() { return ddp_ ? ddp_->forward(Variable(input_)) : model_->forward(Variable(input_)); }

  void one_step(StepTimes* times) {
    const auto begin = Clock::now();
    model_->set_random_context({.step = step_++});
    const Variable loss = nn::cross_entropy(forward(), target_);
    const auto forwarded = Clock::now();
    loss.backward();
    const auto backwarded = Clock::now();
    optimizer_->step();
    optimizer_->zero_grad();
    const auto end = Clock::now();
    if (times) times->add(begin, forwarded, backwarded, end);
    last_loss_ = loss.data().item();
  }

  const StepSettings& settings_;
  std::shared_ptr<nn::Module> model_;
  std::optional<distributed::DistributedDataParallel> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor input_, target_;
  std::uint32_t step_ = 0;
  double last_loss_ = 0;
};

// What the wrapper costs where nothing has to be sent: hooks, statistics, gradients in buckets. The two sides take
// turns in blocks, so that a change of the machine's mood hits both; who begins changes too.
void run_beside_ddp(const StepSettings& settings) {
  distributed::World world{distributed::RankSettings{}};
  StepBench bare(settings), wrapped(settings);
  wrapped.wrap(world);
  bare.run(settings.warmup, nullptr);
  wrapped.run(settings.warmup, nullptr);
  StepTimes of_bare, of_wrapped;
  const std::int64_t block = std::max<std::int64_t>(1, settings.steps / 20);
  bool bare_first = true;
  for (std::int64_t left = settings.steps; left > 0; left -= block, bare_first = !bare_first) {
    const std::int64_t count = std::min(block, left);
    if (bare_first) bare.run(count, &of_bare);
    wrapped.run(count, &of_wrapped);
    if (!bare_first) bare.run(count, &of_bare);
  }
  if (bare.last_loss() != wrapped.last_loss())
    core::fail("step: a loss of {} bare, but {} under DDP", bare.last_loss(), wrapped.last_loss());

  Json json{{"machine", describe_machine()},   {"model", settings.model},     {"batch_size", settings.batch_size},
            {"optimizer", settings.optimizer}, {"threads", settings.threads}, {"steps", settings.steps}};
  std::vector<Row> rows;
  const std::tuple<const char*, const std::vector<double>*, const std::vector<double>*> parts[] = {
      {"step", &of_bare.total, &of_wrapped.total},
      {"forward", &of_bare.forward, &of_wrapped.forward},
      {"backward", &of_bare.backward, &of_wrapped.backward},
      {"optimizer", &of_bare.optimizer, &of_wrapped.optimizer}};
  for (const auto& [name, without, with] : parts) {
    const double bare_ms = median(*without), ddp_ms = median(*with), cost = (ddp_ms / bare_ms - 1) * 100;
    rows.push_back({name, fmt::format("{:.4f}", bare_ms), fmt::format("{:.4f}", ddp_ms), fmt::format("{:+.2f}", cost)});
    json[std::string("bare_") + name + "_ms"] = bare_ms;
    json[std::string("ddp_") + name + "_ms"] = ddp_ms;
    json[std::string("ddp_") + name + "_cost_percent"] = cost;
  }
  print_table({"part", "bare median ms", "under DDP", "cost %"}, rows);
  world.leave();
  write_json(settings.json, json);
}

void run_step(StepSettings settings) {
  const auto resident_at_start = static_cast<double>(peak_resident_bytes());
  const ModelDefaults& defaults = defaults_of(settings.model);
  if (settings.batch_size == 0) settings.batch_size = defaults.batch_size;
  if (settings.steps == 0) settings.steps = defaults.steps;
  if (settings.warmup == 0) settings.warmup = std::max<std::int64_t>(3, settings.steps / 10);
  core::set_num_threads(settings.threads);
  print_settings({{"model", settings.model},
                  {"batch size", std::to_string(settings.batch_size)},
                  {"optimizer", settings.optimizer},
                  {"threads", std::to_string(settings.threads)},
                  {"steps", fmt::format("{} after {} not timed", settings.steps, settings.warmup)}});
  if (settings.ddp) return run_beside_ddp(settings);

  StepBench bench(settings);
  const core::AllocatorStatistics before = core::cpu_allocator().statistics();
  const core::ReorderStatistics reorders_before = core::reorder_statistics();
  const StepTimes times = bench.run();
  const core::AllocatorStatistics after = core::cpu_allocator().statistics();
  const core::ReorderStatistics reorders = core::reorder_statistics();
  const auto steps = static_cast<double>(settings.steps + settings.warmup);

  Json json{{"machine", describe_machine()},   {"model", settings.model},     {"batch_size", settings.batch_size},
            {"optimizer", settings.optimizer}, {"threads", settings.threads}, {"steps", settings.steps}};
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

  const double allocations = static_cast<double>(after.allocations - before.allocations) / steps;
  const double fresh = allocations - static_cast<double>(after.hits - before.hits) / steps;
  constexpr double kMiB = 1 << 20;
  json["samples_per_s"] = static_cast<double>(settings.batch_size) / json["step_ms"].get<double>() * 1e3;
  json["allocations_per_step"] = allocations;
  json["fresh_allocations_per_step"] = fresh;
  json["tensor_peak_mb"] = static_cast<double>(after.peak) / kMiB;
  json["activation_reorders_per_step"] =
      static_cast<double>(reorders.activations - reorders_before.activations) / steps;
  json["peak_rss_mb"] = static_cast<double>(peak_resident_bytes()) / kMiB;
  json["start_rss_mb"] = resident_at_start / kMiB;
  json["last_loss"] = bench.last_loss();
  fmt::print(
      "\n{:.1f} samples/s; {:.1f} allocations a step, {:.2f} of them fresh; tensors {:.1f} MiB at most, process {:.1f} "
      "MiB\n",
      json["samples_per_s"].get<double>(), allocations, fresh, json["tensor_peak_mb"].get<double>(),
      json["peak_rss_mb"].get<double>());
  write_json(settings.json, json);
}

}  // namespace

void add_step(CLI::App& app) {
  auto settings = std::make_shared<StepSettings>();
  CLI::App* command =
      app.add_subcommand("step", "Time of a training step on one fixed batch: forward, backward, optimizer");
  command->add_option("--model", settings->model)
      ->check(CLI::IsMember({"tiny-mlp", "mlp", "mlp-large", "convnet"}))
      ->capture_default_str();
  command->add_option("--batch-size", settings->batch_size, "Default by model: 64; tiny-mlp: 8")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--optimizer", settings->optimizer)
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->capture_default_str();
  command->add_option("--momentum", settings->momentum, "Of sgd")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  command->add_option("--threads", settings->threads)->check(CLI::Range(1, 1024))->capture_default_str();
  command->add_option("--steps", settings->steps, "Timed steps; default by model")->check(CLI::Range(1, 1 << 30));
  command->add_option("--warmup", settings->warmup, "Steps before them; default a tenth")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--json", settings->json, "Write the results to this file");
  command->add_flag("--ddp", settings->ddp,
                    "What DistributedDataParallel costs on one rank: the step bare and wrapped");
  command->callback([settings] { run_step(*settings); });
}

}  // namespace tandem::bench
