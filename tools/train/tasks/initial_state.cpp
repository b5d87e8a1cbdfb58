#include "tools/train/tasks/initial_state.h"

#include <algorithm>
#include <limits>

#include "tandem/nn/dropout.h"
#include "tandem/optim/make_optimizer.h"
#include "tools/train/files/pretrained.h"
#include "tools/train/freeze.h"
#include "tools/train/tasks/make_task.h"

namespace tandem::train {
namespace {

void set_dropout(nn::Module& model, double p) {
  for (nn::Module* module : model.modules())
    if (auto* dropout = dynamic_cast<nn::Dropout*>(module)) dropout->set_p(p);
}

// In either case in the model's order, so that a run can go on with another --decay.
std::vector<optim::ParameterGroup> parameter_groups(const Settings& settings, const nn::Module& model) {
  if (*settings.decay == "matrices") return optim::decay_matrices_only(trained_parameters(model));
  return {{.parameters = trained_parameters(model)}};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& settings, const nn::Module& model) {
  return optim::make_optimizer(*settings.optimizer, parameter_groups(settings, model),
                               {.lr = *settings.lr,
                                .momentum = settings.momentum.value_or(0),
                                .weight_decay = *settings.weight_decay,
                                .nesterov = settings.nesterov});
}

std::unique_ptr<optim::LrSchedule> make_schedule(const Settings& settings, const Length& length,
                                                 optim::Optimizer& optimizer) {
  const optim::LrScheduleOptions options{.kind = optim::parse_lr_schedule(settings.lr_schedule),
                                         .base_lr = *settings.lr,
                                         .warmup_steps = settings.warmup_steps,
                                         .total_steps = settings.lr_steps.value_or(length.total_steps),
                                         .step_size = settings.lr_step_size.value_or(0),
                                         .gamma = settings.lr_gamma.value_or(0)};
  return std::make_unique<optim::LrSchedule>(optimizer, options);
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

}  // namespace

Length run_length(const Settings& settings, int ranks, std::int64_t samples) {
  const std::int64_t global_batch = run_facts(settings, ranks).global_batch / settings.accumulation_steps;
  const std::int64_t micro_steps = divide_up(samples, global_batch);
  Length length{.steps_per_epoch = divide_up(micro_steps, settings.accumulation_steps)};
  length.total_steps = settings.steps.value_or(std::numeric_limits<std::int64_t>::max());
  std::int64_t of_epochs = 0;
  if (settings.epochs && !__builtin_mul_overflow(*settings.epochs, length.steps_per_epoch, &of_epochs))
    length.total_steps = std::min(length.total_steps, of_epochs);
  // Random numbers are addressed by 32-bit numbers of step and epoch (core/random.h).
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (length.total_steps > kMost)
    fail_usage("--epochs, --steps: {} updates, at most {} are possible", length.total_steps, kMost);
  return length;
}

InitialState initial_state(const Settings& settings, const DataSource& data, const Length& length) {
  InitialState begun;
  TrainingState& state = begun.state;
  state.task = make_task(settings, data);
  if (settings.dropout) set_dropout(state.model(), *settings.dropout);
  if (settings.init_weights) begun.left_out = load_initial_weights(settings, data, state.model());
  if (settings.freeze) freeze(state.model(), *settings.freeze);
  state.optimizer = make_optimizer(settings, state.model());
  state.schedule = make_schedule(settings, length, *state.optimizer);
  return begun;
}

}  // namespace tandem::train
