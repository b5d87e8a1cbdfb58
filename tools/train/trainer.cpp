#include "tools/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tandem/autograd/engine.h"
#include "tandem/core/recorder.h"
#include "tandem/distributed/error.h"
#include "tandem/nn/batch_norm2d.h"
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

  /// Once this rank's share of each of the loss's terms is known: on its way while backward computes.
  void begin(const UpdateReport& report) {
    std::vector<double> mine;
    for (const auto& [name, value] : report.terms) mine.push_back(value);
    mine.push_back(static_cast<double>(stop_.received()));
    width_ = mine.size();
    values_ = core::Tensor::empty({group_.size(), static_cast<std::int64_t>(width_)}, {.dtype = core::DType::float64});
    work_ = group_.all_gather(core::Tensor::from(mine), values_, "loss");
  }
  /// The terms of all ranks, added up in the same order on all of them, and their sum.
  void end(UpdateReport& report) {
    work_->wait();
    report.loss = 0;
    for (std::size_t t = 0; t < report.terms.size(); ++t) {
      double total = 0;
      for (int r = 0; r < group_.size(); ++r) total += at(r, t);
      report.terms[t].second = total;
      report.loss += total;
    }
  }
  /// The signal that some rank got, else 0.
  int stopped_by() const {
    double signal = 0;
    for (int r = 0; r < group_.size(); ++r) signal = std::max(signal, at(r, width_ - 1));
    return static_cast<int>(signal);
  }

 private:
  double at(int rank, std::size_t column) const {
    return values_.data<double>()[static_cast<std::size_t>(rank) * width_ + column];
  }

  distributed::ProcessGroup& group_;
  const StopSignal& stop_;
  std::size_t width_ = 0;
  core::Tensor values_;  // [W, terms + 1]: the terms, the signal
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
      identity_(run_identity(settings, ranks.size(), data)),
      stop_(stop),
      ddp_(state.model(), ranks.gradients(), data_parallel_options(settings)),
      parameters_(state.model().parameters()),
      sampler_(make_sampler(settings, ranks, data)),
      loader_(data.train, sampler_,
              {.accumulation_steps = settings.accumulation_steps, .threads = static_cast<int>(settings.data_threads)}) {
  if (settings.profile_out) profile_.emplace(*settings.profile_out, ranks.rank(), ranks.size());
}

void Trainer::run() {
  state_.model().train();
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
  for (const std::string& name : state_.task->terms()) report.terms.emplace_back(name, 0.0);
  state_.optimizer->zero_grad();
  Exchange exchange(*ranks_.group(), stop_);
  ItemCount items(*state_.task, window, *ranks_.group());
  for (std::size_t m = 0; m + 1 < window.micro_batches.size(); ++m) {
    const auto local_only = ddp_.no_sync();
    forward_backward(window, m, items, exchange, report);
  }
  forward_backward(window, window.micro_batches.size() - 1, items, exchange, report);
  exchange.end(report);
  stopped_by_ = exchange.stopped_by();
  check_finite("loss", report.loss, report);
  report.lr = state_.schedule->lr();
  report.has_items = items.has_any();
  if (!report.has_items) return state_.schedule->advance();  // there is no gradient to step along, on any rank

  const distributed::IterationRecord& sent = ddp_.reducer().last_iteration();
  report.comm_ms = sent.first_launch_to_last_completion_ms();
  report.comm_exposed_ms = sent.exposed_ms();
  report.all_reduces = static_cast<std::int64_t>(sent.buckets.size());
  step(report);
}

void Trainer::forward_backward(const data::Window& window, std::size_t micro_step, ItemCount& items, Exchange& exchange,
                               UpdateReport& report) {
  nn::Variable loss;
  {
    const Phase phase("forward", report.forward_ms);
    state_.model().set_random_context(
        {.seed = static_cast<std::uint64_t>(settings_.seed),
         .epoch = state_.epoch(),
         .step = static_cast<std::uint32_t>(state_.step()),
         .shard = static_cast<std::uint32_t>(micro_step * ranks_.size() + ranks_.rank())});
    ddp_.before_forward();
    std::optional<nn::PartialBatchGuard> partial;
    if (window.micro_batches[micro_step].rows() < settings_.batch_size) partial.emplace();
    const std::vector<nn::Variable> sums = state_.task->loss_sums(window.micro_batches[micro_step]);
    for (std::size_t t = 0; t < sums.size(); ++t) {
      report.terms[t].second += items.share(t) * sums[t].data().item();
      const nn::Variable scaled = sums[t] * (ranks_.size() * items.share(t));
      loss = loss.defined() ? loss + scaled : scaled;
    }
  }
  if (micro_step + 1 == window.micro_batches.size()) exchange.begin(report);
  if (!items.has_any()) return;
  const Phase phase("backward", report.backward_ms);
  loss.backward();
}

void Trainer::step(UpdateReport& report) {
  const Phase phase("optimizer", report.optimizer_ms);
  if (settings_.clip_grad_norm) {
    report.grad_norm = optim::clip_grad_norm(parameters_, *settings_.clip_grad_norm);
    check_finite("norm of the gradients", *report.grad_norm, report);
  }
  state_.schedule->apply();
  state_.optimizer->step();
  state_.schedule->advance();
}

void Trainer::after_update(const UpdateReport& report) {
  metrics_.update(report);
  if (profile_ && report.has_items) profile_->update(ddp_.reducer(), report);
  progress_.update(report);
  const bool epoch_ended = state_.position.micro_step == sampler_.micro_steps();
  const auto is_due = [&](const std::optional<std::int64_t>& every) {
    return every ? *every > 0 && report.step % *every == 0 : epoch_ended;
  };
  if (is_due(settings_.eval_every) && stopped_by_ == 0) {
    ddp_.sync_buffers();
    if (const auto result = evaluate(settings_, ranks_, *state_.task, data_.test, stop_)) {
      metrics_.evaluation(report.epoch, *result);
      progress_.evaluation(report.epoch, report.step, *result);
      evaluated_step_ = report.step;
    }
  }
  if (is_due(settings_.checkpoint_every)) save_checkpoint();
}

void Trainer::save_checkpoint() {
  ddp_.sync_buffers();
  if (checkpoints_) checkpoints_->save(state_, identity_);
}

std::int64_t epoch_number(const TrainingState& state) {
  if (state.step() == 0) return 0;
  return std::int64_t{state.position.epoch} + (state.position.micro_step > 0);
}

}  // namespace tandem::train
