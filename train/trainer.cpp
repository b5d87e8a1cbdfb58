#include "tandem/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tandem/autograd/engine.h"
#include "tandem/core/ops/binary.h"
#include "tandem/core/ops/unary.h"
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

void check_finite(const char* what, double value, const UpdateReport& report, const std::string& advice) {
  if (!std::isfinite(value))
    throw distributed::SharedError(fmt::format("the {} is {} at step {} (epoch {}): training diverged; {}", what, value,
                                               report.step, report.epoch, advice));
}

data::Sampler make_sampler(const TrainerOptions& options, const Ranks& ranks) {
  return data::Sampler({.samples = options.train->size(),
                        .batch_size = options.batch_size,
                        .rank = ranks.rank(),
                        .world_size = ranks.size(),
                        .shuffle = options.shuffle,
                        .seed = options.seed});
}

}  // namespace

Trainer::Trainer(TrainerOptions options, Ranks& ranks, TrainingState& state, std::vector<Listener*> listeners,
                 const StopSignal& stop)
    : options_(std::move(options)),
      ranks_(ranks),
      state_(state),
      listeners_(std::move(listeners)),
      stop_(stop),
      ddp_(state.model(), ranks.gradients(), options_.data_parallel),
      parameters_(trained_parameters(state.model())),
      sampler_(make_sampler(options_, ranks)),
      loader_(options_.train, sampler_,
              {.accumulation_steps = options_.accumulation_steps,
               .threads = options_.data_threads,
               .device = core::default_device(),
               .items = item_counter(*state.task)}) {}

void Trainer::run() {
  state_.model().train();
  evaluate_if_due();
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
  std::vector<core::Tensor> terms;  // this rank's share of the loss; it stays on the device until it is exchanged
  for (const std::string& name : state_.task->terms()) {
    report.terms.emplace_back(name, 0.0);
    terms.push_back(core::Tensor::zeros({}, {.dtype = core::DType::float64}));
  }
  state_.optimizer->zero_grad();
  Exchange exchange(*ranks_.group(), stop_);
  ItemCount items(*state_.task, window, *ranks_.group());
  for (std::int64_t m = 0; m + 1 < window.micro_batches.size(); ++m) {
    const auto local_only = ddp_.no_sync();
    forward_backward(window, m, items, terms, exchange, report);
  }
  forward_backward(window, window.micro_batches.size() - 1, items, terms, exchange, report);
  exchange.end(report);
  stopped_by_ = exchange.stopped_by();
  check_finite("loss", report.loss, report, options_.advice);
  report.lr = state_.schedule->lr();
  report.has_items = items.has_any();
  if (!report.has_items) return state_.schedule->advance();  // there is no gradient to step along, on any rank

  const distributed::IterationRecord& sent = ddp_.reducer().last_iteration();
  report.comm_ms = sent.first_launch_to_last_completion_ms();
  report.comm_exposed_ms = sent.exposed_ms();
  report.all_reduces = static_cast<std::int64_t>(sent.buckets.size());
  step(report);
}

void Trainer::forward_backward(const data::Window& window, std::int64_t micro_step, ItemCount& items,
                               std::vector<core::Tensor>& terms, Exchange& exchange, UpdateReport& report) {
  data::Batch batch;
  {
    const Phase phase("data", report.data_ms);
    batch = window.micro_batches.next();
  }
  nn::Variable loss;
  {
    const Phase phase("forward", report.forward_ms);
    state_.model().set_random_context(
        {.seed = options_.seed,
         .epoch = state_.epoch(),
         .step = static_cast<std::uint32_t>(state_.step()),
         .shard = static_cast<std::uint32_t>(micro_step * ranks_.size() + ranks_.rank())});
    std::optional<nn::PartialBatchGuard> partial;
    if (batch.rows() < options_.batch_size) partial.emplace();
    const std::vector<nn::Variable> sums = ddp_.forward([&] { return state_.task->loss_sums(batch); });
    for (std::size_t t = 0; t < sums.size(); ++t) {
      core::accumulate(terms[t], core::mul_scalar(sums[t].data().to(core::DType::float64), items.share(t)));
      const nn::Variable scaled = sums[t] * (ranks_.size() * items.share(t));
      loss = loss.defined() ? loss + scaled : scaled;
    }
  }
  if (micro_step + 1 == window.micro_batches.size()) exchange.begin(terms);
  if (!items.has_any()) return;
  const Phase phase("backward", report.backward_ms);
  loss.backward();
}

void Trainer::step(UpdateReport& report) {
  const Phase phase("optimizer", report.optimizer_ms);
  core::Tensor norm;
  if (options_.clip_grad_norm) norm = optim::clip_grad_norm(parameters_, *options_.clip_grad_norm);
  state_.schedule->apply();
  state_.optimizer->step();
  state_.schedule->advance();
  if (!norm.defined()) return;
  report.grad_norm = norm.item();  // as late as can be: a device has the step to compute meanwhile
  check_finite("norm of the gradients", *report.grad_norm, report, options_.advice);
}

// The checkpoint comes first, so that an evaluation that fails or is stopped does not cost what was trained.
void Trainer::after_update(UpdateReport& report) {
  report.is_last = is_finished();
  for (Listener* listener : listeners_) listener->update(report, ddp_.reducer());
  if (is_due(options_.checkpoint_every)) save_checkpoint();
  if (stopped_by_ == 0) evaluate_if_due();
}

// After so many updates; if that is left open, at each epoch's end.
bool Trainer::is_due(const std::optional<std::int64_t>& every) const {
  if (state_.step() == 0) return false;
  if (every) return *every > 0 && state_.step() % *every == 0;
  return state_.position.micro_step == 0 || state_.position.micro_step == sampler_.micro_steps();
}

void Trainer::evaluate_if_due() {
  if (is_finished()) return;  // the last evaluation is the caller's, when all that was trained has been saved
  if (!is_due(options_.eval_every) || state_.is_evaluated()) return;
  if (const auto result = evaluate()) tell(*result);
}

std::optional<Evaluation> Trainer::evaluate(Outputs* outputs) {
  ddp_.sync_buffers();
  std::optional<Evaluation> result;
  try {
    result = train::evaluate(
        {.batch_size = options_.batch_size, .data_threads = options_.data_threads}, ranks_, *state_.task, options_.test,
        [this] { return stop_.received() != 0; }, outputs);
  } catch (const core::Error&) {
    keep_in_spite_of_failure();
    throw;
  }
  if (!result) stopped_by_ = ranks_.any_signal(stop_.received());
  return result;
}

void Trainer::tell(const Evaluation& result) {
  for (Listener* listener : listeners_) listener->evaluation(state_.step(), epoch_number(state_), result);
  state_.evaluated_step = state_.step();
}

void Trainer::save_checkpoint() {
  ddp_.sync_buffers();
  train::check_finite(state_, options_.advice);
  for (Listener* listener : listeners_) listener->checkpoint(state_);
}

// An image of the test data that cannot be read does not cost what was trained since the last checkpoint.
void Trainer::keep_in_spite_of_failure() {
  try {
    train::check_finite(state_, options_.advice);
    for (Listener* listener : listeners_) listener->checkpoint(state_);
  } catch (const core::Error&) {  // the error of the evaluation says more
  }
}

}  // namespace tandem::train
