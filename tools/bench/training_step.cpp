#include "tools/bench/training_step.h"

#include <chrono>

#include "tandem/core/recorder.h"
#include "tandem/optim/adam.h"
#include "tandem/optim/sgd.h"

namespace tandem::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerSettings& settings, nn::Module& model) {
  if (settings.name == "sgd")
    return std::make_unique<optim::Sgd>(model.parameters(),
                                        optim::SgdOptions{.lr = 0.01, .momentum = settings.momentum});
  return std::make_unique<optim::Adam>(
      model.parameters(), optim::AdamOptions{.lr = 1e-3, .decoupled_weight_decay = settings.name == "adamw"});
}

}  // namespace

TrainingStep::TrainingStep(const WorkloadSettings& workload, const OptimizerSettings& optimizer)
    : workload_(make_workload(workload)), optimizer_(make_optimizer(optimizer, workload_->module())) {}

void TrainingStep::run(std::int64_t steps, StepTimes* times) {
  for (std::int64_t i = 0; i < steps; ++i) run_one(times);
}

nn::Variable TrainingStep::forward() {
  const core::RecordScope scope("forward", "phase");
  const auto loss = [&] { return workload_->loss(); };
  return ddp_ ? ddp_->forward(loss) : loss();
}

void TrainingStep::run_one(StepTimes* times) {
  const core::RecordScope scope("step", "phase");
  const auto begin = Clock::now();
  workload_->module().set_random_context({.step = step_++});
  const nn::Variable loss = forward();
  const auto forwarded = Clock::now();
  loss.backward();
  const auto backwarded = Clock::now();
  optimizer_->step();
  optimizer_->zero_grad();
  const auto end = Clock::now();
  last_loss_ = loss.data().item();
  if (times == nullptr) return;
  times->total.push_back(ms(end - begin));
  times->forward.push_back(ms(forwarded - begin));
  times->backward.push_back(ms(backwarded - forwarded));
  times->optimizer.push_back(ms(end - backwarded));
}

}  // namespace tandem::bench
