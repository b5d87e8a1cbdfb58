#include "tools/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tandem/autograd/engine.h"
#include "tandem/core/recorder.h"
#include "tandem/distributed/error.h"
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
    throw distributed::SharedError(
        fmt::format("the {} is {} at step {} (epoch {}): training diverged; a lower --lr, --warmup-steps or "
                    "--clip-grad-norm may help",
                    what, value, report.step, report.epoch));
}

distributed::DataParallelOptions data_parallel_options(const Settings& settings) {
  return {.bucket_cap_mb = settings.bucket_cap_mb,
          .first_bucket_mb = settings.first_bucket_mb,
          .broadcast_buffers = !settings.no_broadcast_buffers,
          .bucket_order = settings.bucket_order == "observed" ? distributed::BucketOrder::observed
                                                              : distributed::BucketOrder::reverse,
          .overlap = !settings.no_overlap,
          .find_unused_parameters = settings.find_unused_parameters,
          .static_graph = settings.static_graph,
          .comm_hook = distributed::make_comm_hook(settings.comm_hook)};
}

data::Sampler make_sampler(const Settings& settings, const Ranks& ranks, const DataSource& source) {
  return data::Sampler({.samples = source.train->size(),
                        .batch_size = settings.batch_size,
                        .rank = ranks.rank(),
                        .world_size = ranks.size(),
                        .shuffle = source.shuffle,
                        .seed = static_cast<std::uint64_t>(settings.seed)});
}

}  // namespace

class Trainer::Exchange {
 public:
  Exchange(distributed::ProcessGroup& group, const StopSignal& stop) : group_(group), stop_(stop) {}

  /// Once this rank's loss is known: on its way while backward computes.
  void begin(double loss) {
    values_ = core::Tensor::empty({group_.size(), 2}, {.dtype = core::DType::float64});
    work_ = group_.all_gather(core::Tensor::from(std::vector{loss, static_cast<double>(stop_.received())}), values_,
                              "loss");
  }
  void wait() { work_->wait(); }
  /// Added up in the same order on all ranks.
  double loss() const {
    const double* values = values_.data<double>();
    double total = 0;
    for (int r = 0; r < group_.size(); ++r) total += values[2 * r];
    return total;
  }
  /// The signal that some rank got, else 0.
  int stopped_by() const {
    const double* values = values_.data<double>();
    double signal = 0;
    for (int r = 0; r < group_.size(); ++r) signal = std::max(signal, values[2 * r + 1]);
    return static_cast<int>(signal);
  }

 private:
  distributed::ProcessGroup& group_;
  const StopSignal& stop_;
  core::Tensor values_;  // [W, 2]: loss, signal
  distributed::WorkPtr work_;
};

Trainer::Trainer(const Settings& settings, Ranks& ranks, const DataSource& data, const Length& length,
                 TrainingState& state, Metrics& metrics, Progress& progress, CheckpointFolder* checkpoints,
                 const StopSignal& stop)
    : settings_(settings),
      ranks_(ranks),
      data_(data),
      length_(length),
      state_(state),
      metrics_(metrics),
      progress_(progress),
      checkpoints_(checkpoints),
      stop_(stop),
      ddp_(*state.model, ranks.gradients(), data_parallel_options(settings)),
      parameters_(state.model->parameters()),
      sampler_(make_sampler(settings, ranks, data)),
      loader_(data.train, sampler_, {.accumulation_steps = settings.accumulation_steps}) {
  if (settings.profile_out) profile_.emplace(*settings.profile_out, ranks.rank(), ranks.size());
}

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
  ranks_.world().watch().note_step(report.step);
  report.rows = window.rows;
  state_.optimizer->zero_grad();
  Exchange exchange(*ranks_.group(), stop_);
  for (std::size_t m = 0; m + 1 < window.micro_batches.size(); ++m) {
    const auto local_only = ddp_.no_sync();
    forward_backward(window, m, exchange, report);
  }
  forward_backward(window, window.micro_batches.size() - 1, exchange, report);

  const distributed::IterationRecord& sent = ddp_.reducer().last_iteration();
  report.comm_ms = sent.first_launch_to_last_completion_ms();
  report.comm_exposed_ms = sent.exposed_ms();
  report.all_reduces = static_cast<std::int64_t>(sent.buckets.size());
  exchange.wait();
  report.loss = exchange.loss();
  stopped_by_ = exchange.stopped_by();
  check_finite("loss", report.loss, report);
  step(report);
}

void Trainer::forward_backward(const data::Window& window, std::size_t micro_step, Exchange& exchange,
                               UpdateReport& report) {
  const data::Batch& batch = window.micro_batches[micro_step];
  const core::DType dtype = parameters_.front().dtype();
  const auto rows = static_cast<double>(window.rows);
  nn::CrossEntropyOptions options;
  options.label_smoothing = settings_.label_smoothing;
  options.reduction = nn::Reduction::sum;
  nn::Variable loss;
  {
    const Phase phase("forward", report.forward_ms);
    state_.model->set_random_context({.seed = static_cast<std::uint64_t>(settings_.seed),
                                      .epoch = state_.epoch(),
                                      .step = static_cast<std::uint32_t>(state_.step()),
                                      .shard = static_cast<std::uint32_t>(micro_step * ranks_.size() + ranks_.rank())});
    loss = nn::cross_entropy(ddp_.forward(batch.input.to(dtype)), batch.target, options);
    report.loss += loss.data().item() / rows;
  }
  if (micro_step + 1 == window.micro_batches.size()) exchange.begin(report.loss);
  const Phase phase("backward", report.backward_ms);
  loss.backward({.gradient = core::Tensor::scalar(ranks_.size() / rows, dtype)});
}

void Trainer::step(UpdateReport& report) {
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
  if (profile_) profile_->update(ddp_.reducer(), report);
  progress_.update(report);
  const bool epoch_ended = state_.position.micro_step == sampler_.micro_steps();
  const auto is_due = [&](const std::optional<std::int64_t>& every) {
    return every ? *every > 0 && report.step % *every == 0 : epoch_ended;
  };
  if (is_due(settings_.eval_every) && stopped_by_ == 0) {
    ddp_.sync_buffers();
    if (const auto result = evaluate(ranks_, *state_.model, data_.test, settings_.batch_size, stop_)) {
      metrics_.evaluation(report.epoch, *result);
      progress_.evaluation(report.epoch, report.step, *result);
      evaluated_step_ = report.step;
    }
  }
  if (is_due(settings_.checkpoint_every)) save_checkpoint();
}

void Trainer::save_checkpoint() {
  ddp_.sync_buffers();
  if (checkpoints_) checkpoints_->save(state_, run_identity(settings_, ranks_.size(), data_.train->size()));
}

std::int64_t epoch_number(const TrainingState& state) {
  if (state.step() == 0) return 0;
  return std::int64_t{state.position.epoch} + (state.position.micro_step > 0);
}

}  // namespace tandem::train
