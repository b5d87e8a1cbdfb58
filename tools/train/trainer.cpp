#include "tools/train/trainer.h"

#include <chrono>
#include <cmath>

#include "tandem/autograd/engine.h"
#include "tandem/core/recorder.h"
#include "tandem/nn/loss.h"
#include "tandem/optim/clip_grad.h"

namespace tandem::train {
namespace {

/// Adds the time it lives to `ms`, and records it.
class Phase {
 public:
  Phase(const char* name, double& ms) : scope_(name, "phase"), ms_(ms) {}
  ~Phase() { ms_ += std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  core::RecordScope scope_;
  double& ms_;
  Clock::time_point begin_ = Clock::now();
};

void check_finite(const char* what, double value, const UpdateReport& report) {
  if (!std::isfinite(value))
    core::fail(
        "the {} is {} at step {} (epoch {}): training diverged; a lower --lr, --warmup-steps or --clip-grad-norm may "
        "help",
        what, value, report.step, report.epoch);
}

data::Sampler make_sampler(const Settings& settings, const DataSource& source) {
  return data::Sampler({.samples = source.train->size(),
                        .batch_size = settings.batch_size,
                        .shuffle = source.shuffle,
                        .seed = static_cast<std::uint64_t>(settings.seed)});
}

}  // namespace

Trainer::Trainer(const Settings& settings, const DataSource& data, const Length& length, TrainingState& state,
                 Metrics& metrics, Progress& progress, CheckpointFolder* checkpoints, const StopSignal& stop)
    : settings_(settings),
      data_(data),
      length_(length),
      state_(state),
      metrics_(metrics),
      progress_(progress),
      checkpoints_(checkpoints),
      stop_(stop),
      parameters_(state.model->parameters()),
      sampler_(make_sampler(settings, data)),
      loader_(data.train, sampler_, {.accumulation_steps = settings.accumulation_steps}) {}

void Trainer::run() {
  state_.model->train();
  while (!is_finished()) {
    run_epoch();
    if (state_.position.micro_step == sampler_.micro_steps()) state_.position = {.epoch = state_.epoch() + 1};
  }
}

void Trainer::run_epoch() {
  loader_.begin_epoch(state_.position);
  while (!is_finished()) {
    UpdateReport report{.step = state_.step() + 1, .epoch = std::int64_t{state_.epoch()} + 1};
    {
      const Phase whole("step", report.step_ms);
      std::optional<data::Window> window;
      {
        const Phase phase("data", report.data_ms);
        window = loader_.next_window();
      }
      if (!window) return;
      update(*window, report);
    }
    state_.position = loader_.position();
    after_update(report);
  }
}

void Trainer::update(const data::Window& window, UpdateReport& report) {
  nn::Module& model = *state_.model;
  const core::DType dtype = parameters_.front().dtype();
  nn::CrossEntropyOptions loss_options;
  loss_options.label_smoothing = settings_.label_smoothing;
  report.rows = window.rows;

  state_.optimizer->zero_grad();
  for (std::size_t m = 0; m < window.micro_batches.size(); ++m) {
    const data::Batch& batch = window.micro_batches[m];
    // The gradient of the mean over all rows of the window is the sum of the micro-steps' mean gradients, each by its
    // share.
    const double share = static_cast<double>(batch.target.size(0)) / static_cast<double>(window.rows);
    nn::Variable loss;
    {
      const Phase phase("forward", report.forward_ms);
      model.set_random_context({.seed = static_cast<std::uint64_t>(settings_.seed),
                                .epoch = state_.epoch(),
                                .step = static_cast<std::uint32_t>(state_.step()),
                                .shard = static_cast<std::uint32_t>(m)});
      loss = nn::cross_entropy(model.forward(batch.input.to(dtype)), batch.target, loss_options);
      report.loss += share * loss.data().item();
    }
    check_finite("loss", report.loss, report);
    const Phase phase("backward", report.backward_ms);
    loss.backward({.gradient = core::Tensor::scalar(share, dtype)});
  }

  const Phase phase("optimizer", report.optimizer_ms);
  if (settings_.clip_grad_norm) {
    report.grad_norm = optim::clip_grad_norm(parameters_, *settings_.clip_grad_norm);
    check_finite("norm of the gradients", *report.grad_norm, report);
  }
  report.lr = state_.schedule->lr();
  state_.schedule->apply();
  state_.optimizer->step();
  state_.schedule->advance();
}

void Trainer::after_update(const UpdateReport& report) {
  metrics_.update(report);
  progress_.update(report);
  const bool epoch_ended = state_.position.micro_step == sampler_.micro_steps();
  const auto is_due = [&](const std::optional<std::int64_t>& every) {
    return every ? *every > 0 && report.step % *every == 0 : epoch_ended;
  };
  if (is_due(settings_.eval_every) && !stop_.received()) {
    if (const auto result = evaluate(*state_.model, data_.test, settings_.batch_size, stop_)) {
      metrics_.evaluation(report.epoch, *result);
      progress_.evaluation(report.epoch, report.step, *result);
      evaluated_step_ = report.step;
    }
  }
  if (checkpoints_ && is_due(settings_.checkpoint_every))
    checkpoints_->save(state_, run_identity(settings_, data_.train->size()));
}

std::int64_t epoch_number(const TrainingState& state) {
  if (state.step() == 0) return 0;
  return std::int64_t{state.position.epoch} + (state.position.micro_step > 0);
}

}  // namespace tandem::train
