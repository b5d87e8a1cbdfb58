#include "tools/bench/training_step.h"

#include <chrono>

#include "tandem/core/recorder.h"
#include "tandem/optim/make_optimizer.h"

namespace tandem::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

}  // namespace

TrainingStep::TrainingStep(const WorkloadSettings& workload, const OptimizerSettings& optimizer)
    : workload_(make_workload(workload)),
      optimizer_(optim::make_optimizer(
          optimizer.name, {{.parameters = workload_->module().parameters()}},
          {.lr = optim::has_momentum(optimizer.name) ? 0.01 : 1e-3, .momentum = optimizer.momentum})) {}

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
