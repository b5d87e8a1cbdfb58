#include "tools/bench/step.h"

#include <chrono>
#include <CLI/CLI.hpp>
#include <memory>

#include "tandem/autograd/engine.h"
#include "tandem/core/allocator.h"
#include "tandem/core/ops/conv2d.h"
#include "tandem/core/parallel.h"
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
  int threads = core::num_threads();
};

/// What is usual for each model.
struct ModelDefaults {
  const char* name;
  std::int64_t batch_size, steps;
  Shape sample;
};

const ModelDefaults& defaults_of(const std::string& name) {
  static const ModelDefaults all[] = {
      {"tiny-mlp", 8, 20000, {16}}, {"mlp", 64, 500, {784}}, {"convnet", 64, 40, {1, 28, 28}}};
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

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, std::vector<Variable> parameters) {
  if (name == "sgd") return std::make_unique<optim::Sgd>(std::move(parameters), optim::SgdOptions{.lr = 0.01});
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
        optimizer_(make_optimizer(settings.optimizer, model_->parameters())) {
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

  double last_loss() const { return last_loss_; }

 private:
  void one_step(StepTimes* times) {
    const auto begin = Clock::now();
    model_->set_random_context({.step = step_++});
    const Variable loss = nn::cross_entropy(model_->forward(Variable(input_)), target_);
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
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor input_, target_;
  std::uint32_t step_ = 0;
  double last_loss_ = 0;
};

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
      ->check(CLI::IsMember({"tiny-mlp", "mlp", "convnet"}))
      ->capture_default_str();
  command->add_option("--batch-size", settings->batch_size, "Default by model: 8, 64, 64")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--optimizer", settings->optimizer)
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->capture_default_str();
  command->add_option("--threads", settings->threads)->check(CLI::Range(1, 1024))->capture_default_str();
  command->add_option("--steps", settings->steps, "Timed steps; default by model")->check(CLI::Range(1, 1 << 30));
  command->add_option("--warmup", settings->warmup, "Steps before them; default a tenth")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--json", settings->json, "Write the results to this file");
  command->callback([settings] { run_step(*settings); });
}

}  // namespace tandem::bench
