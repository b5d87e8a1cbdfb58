#include "tandem/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem::optim {

using core::fail;

LrScheduleKind parse_lr_schedule(std::string_view name) {
  if (name == "constant") return LrScheduleKind::constant;
  if (name == "linear") return LrScheduleKind::linear;
  if (name == "cosine") return LrScheduleKind::cosine;
  if (name == "step") return LrScheduleKind::step;
  fail("lr schedule: '{}' is none of constant, linear, cosine, step", name);
}

double learning_rate(const LrScheduleOptions& o, std::int64_t step) {
  if (step < o.warmup_steps) return o.base_lr * static_cast<double>(step + 1) / static_cast<double>(o.warmup_steps);
  const std::int64_t since_warmup = step - o.warmup_steps;
  const auto decay_steps = static_cast<double>(std::max<std::int64_t>(1, o.total_steps - o.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(since_warmup) / decay_steps);
  switch (o.kind) {
    case LrScheduleKind::constant: return o.base_lr;
    case LrScheduleKind::linear: return o.base_lr * (1 - (1 - o.final_factor) * progress);
    case LrScheduleKind::cosine: {
      const double wave = (1 + std::cos(std::numbers::pi * progress)) / 2;
      return o.base_lr * (o.final_factor + (1 - o.final_factor) * wave);
    }
    case LrScheduleKind::step: break;
  }
  if (o.step_size < 1) fail("lr schedule: step needs a step size of at least 1");
  return o.base_lr * std::pow(o.gamma, static_cast<double>(since_warmup / o.step_size));
}

LrSchedule::LrSchedule(Optimizer& optimizer, const LrScheduleOptions& options)
    : optimizer_(optimizer), options_(options) {
  const bool decays = options.kind == LrScheduleKind::linear || options.kind == LrScheduleKind::cosine;
  if (decays && options.total_steps < 1) fail("lr schedule: linear and cosine need the number of steps");
  if (options.kind == LrScheduleKind::step && options.step_size < 1)
    fail("lr schedule: step needs a step size of at least 1");
  if (options.warmup_steps < 0) fail("lr schedule: {} warm-up steps", options.warmup_steps);
}

core::StateDict LrSchedule::state_dict() const {
  return {{"step", Tensor::scalar(static_cast<double>(step_), core::DType::int64)}};
}

void LrSchedule::load_state_dict(const core::StateDict& state) {
  step_ = static_cast<std::int64_t>(core::find(state, "step", "lr schedule").item());
}

}  // namespace tandem::optim
