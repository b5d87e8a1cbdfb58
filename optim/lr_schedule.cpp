#include "tandem/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tandem/optim/checks.h"

namespace tandem::optim {

namespace {

using core::fail;

constexpr const char* kWho = "lr schedule";
constexpr const char* kStep = "step";
constexpr const char* kTotalSteps = "total_steps";

void check(const LrScheduleOptions& o) {
  check_not_negative(kWho, "base rate", o.base_lr);
  check_not_negative(kWho, "final factor", o.final_factor);
  check_not_negative(kWho, "gamma", o.gamma);
  if (o.warmup_steps < 0) fail("{}: the warm-up steps are {}, must be a number >= 0", kWho, o.warmup_steps);
  if (depends_on_length(o.kind) && o.total_steps < 1)
    fail("{}: linear and cosine need the number of steps, total_steps is {}", kWho, o.total_steps);
  if (o.kind == LrScheduleKind::step && o.step_size < 1)
    fail("{}: step needs a step size >= 1, step_size is {}", kWho, o.step_size);
}

// A count among a state's entries.
std::int64_t count_of(const Tensor& tensor, const char* name) {
  const double value = tensor.item();
  if (!(value >= 0 && value <= 1e15)) fail("{}: \"{}\" is {}, must be a number of updates", kWho, name, value);
  return static_cast<std::int64_t>(value);
}

}  // namespace

LrScheduleKind parse_lr_schedule(std::string_view name) {
  if (name == "constant") return LrScheduleKind::constant;
  if (name == "linear") return LrScheduleKind::linear;
  if (name == "cosine") return LrScheduleKind::cosine;
  if (name == "step") return LrScheduleKind::step;
  fail("lr schedule: '{}' is none of constant, linear, cosine, step", name);
}

bool depends_on_length(LrScheduleKind kind) { return kind == LrScheduleKind::linear || kind == LrScheduleKind::cosine; }

double learning_rate(const LrScheduleOptions& o, std::int64_t step) {
  check(o);
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
  return o.base_lr * std::pow(o.gamma, static_cast<double>(since_warmup / o.step_size));
}

LrSchedule::LrSchedule(Optimizer& optimizer, const LrScheduleOptions& options)
    : optimizer_(optimizer), options_(options) {
  check(options);
}

core::StateDict LrSchedule::state_dict() const {
  const auto count = [](std::int64_t value) { return Tensor::scalar(static_cast<double>(value), core::DType::int64); };
  core::StateDict state{{kStep, count(step_)}};
  if (depends_on_length(options_.kind)) state.emplace_back(kTotalSteps, count(options_.total_steps));
  return state;
}

void LrSchedule::load_state_dict(const core::StateDict& state) {
  const std::int64_t step = count_of(core::find(state, kStep, kWho), kStep);
  for (const auto& [name, tensor] : state) {
    if (name != kTotalSteps || !depends_on_length(options_.kind)) continue;
    LrScheduleOptions before = options_;
    before.total_steps = count_of(tensor, kTotalSteps);
    if (before.total_steps != options_.total_steps)
      fail("{}: the state is of one over {} updates, this one is over {}: the rate would jump from {:.3g} to {:.3g}",
           kWho, before.total_steps, options_.total_steps, learning_rate(before, step), learning_rate(options_, step));
  }
  step_ = step;
}

}  // namespace tandem::optim
