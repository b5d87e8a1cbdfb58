#include "tools/train/run.h"

#include <cmath>

#include "tandem/core/ops/reduce.h"
#include "tandem/core/parallel.h"
#include "tandem/core/start_thread.h"
#include "tandem/data/safetensors.h"
#include "tandem/distributed/error.h"
#include "tools/train/bert_settings.h"
#include "tools/train/forced_end.h"
#include "tools/train/overview.h"
#include "tools/train/pretrained.h"
#include "tools/train/ranks.h"
#include "tools/train/run_folder.h"
#include "tools/train/summary.h"
#include "tools/train/trainer.h"

namespace tandem::train {
namespace {

// Epoch, micro-step and updates count the same work: where they do not agree, a run would go on at the wrong rows.
void check_position(const Settings& settings, const Length& length, const TrainingState& state) {
  const auto [epoch, micro_step] = state.position;
  if (micro_step < 0 || micro_step > length.steps_per_epoch * settings.accumulation_steps)
    core::fail("micro-step {} is none of an epoch's", micro_step);
  const std::int64_t in_epoch = (micro_step + settings.accumulation_steps - 1) / settings.accumulation_steps;
  if (epoch * length.steps_per_epoch + in_epoch != state.step())
    core::fail("{} updates do not end at epoch {}, micro-step {}", state.step(), epoch, micro_step);
  if (state.step() > length.total_steps)
    core::fail("has {} updates, --epochs and --steps ask for {}", state.step(), length.total_steps);
}

// The state that --resume continues from. Where there is none yet the run begins, so that one command serves both.
std::optional<std::filesystem::path> resume(const Settings& settings, const Ranks& ranks, const DataSource& data,
                                            const Length& length, TrainingState& state) {
  if (!settings.resume) return std::nullopt;
  const std::string folder = *checkpoint_folder(settings);
  const auto checkpoint = newest_checkpoint(folder);
  if (checkpoint) {
    load_checkpoint(*checkpoint, state, run_identity(settings, ranks.size(), data));
    try {
      if (!settings.eval_only) check_position(settings, length, state);
    } catch (const core::Error& error) {
      core::fail("{}: {}", checkpoint->string(), error.what());
    }
  }
  if (!checkpoint && settings.eval_only) core::fail("--resume: no checkpoint in {}", folder);
  return checkpoint;
}

// What the last update did shows in no loss any more.
void check_weights(const nn::Module& model) {
  for (const auto& [name, variable] : model.named_parameters())
    if (!std::isfinite(core::sum_of_squares(variable.data())))
      throw distributed::SharedError(fmt::format(
          "{} holds values that are not finite or too large after the last update: training diverged", name));
}

void save_gradients(const std::string& path, const nn::Module& model) {
  data::NamedTensors gradients;
  for (const auto& [name, variable] : model.named_parameters())
    if (variable.grad().defined()) gradients.emplace_back(name, variable.grad());
  if (gradients.empty()) core::fail("--save-grads {}: no update was made, so there are no gradients", path);
  data::save_safetensors(path, gradients);
}

// Evaluates where that is due, and once more where outputs are wanted.
void evaluate_at_end(const Settings& settings, Ranks& ranks, const DataSource& data, const TrainingState& state,
                     bool is_due, const StopSignal& stop, Metrics& metrics, Progress& progress) {
  if (!is_due && !settings.save_outputs) return;
  Outputs outputs;
  const auto result =
      evaluate(settings, ranks, *state.task, data.test, stop, settings.save_outputs ? &outputs : nullptr);
  if (!result) return;
  if (is_due) {
    metrics.evaluation(epoch_number(state), *result);
    progress.evaluation(epoch_number(state), state.step(), *result);
  }
  if (settings.save_outputs && ranks.is_first()) data::save_safetensors(*settings.save_outputs, outputs);
}

// Before the first update: what would make ranks compute different things, named while nothing is lost.
void verify_ranks(const Settings& settings, Ranks& ranks, const DataSource& data, const TrainingState& state) {
  ranks.verify(
      "what the ranks read",
      {fmt::format("{} training and {} test samples", data.train->size(), data.test->size()),
       "data with hash " + contents_fingerprint(data), "a model configuration with hash " + model_fingerprint(settings),
       fmt::format("checkpoints up to step {}", state.step())});
}

// All ranks end with the same error: in good order, so that none of them takes another's end for a failure.
void leave_together(Ranks& ranks) {
  try {
    ranks.world().leave();
  } catch (const core::Error&) {  // one did not come; what it ends with counts less than why all of them end
  }
}

// Runs `part`. What it throws is told to the other ranks at once, while the groups through which they would notice
// otherwise, as a lost connection, still live.
template <class Part>
auto telling_others(Ranks& ranks, Part&& part) {
  try {
    return part();
  } catch (const distributed::PeerError&) {
    throw;
  } catch (const distributed::SharedError&) {
    leave_together(ranks);
    throw;
  } catch (const std::exception& error) {
    ranks.world().fail(error.what());
    throw;
  }
}

int run_rank(const Settings& given, Ranks& ranks, const RunHooks& hooks) {
  const Settings settings = settings_of_rank(given, ranks.rank(), ranks.world().local_size());
  core::check_compute_threads(static_cast<int>(*settings.threads));
  core::set_num_threads(static_cast<int>(*settings.threads));
  const DataSource data = open_data(settings);
  const Length length = run_length(settings, ranks.size(), data.train->size());
  TrainingState state = initial_state(settings, data, length);
  const auto checkpoint = resume(given, ranks, data, length, state);
  verify_ranks(settings, ranks, data, state);
  if (settings.summary) {
    if (ranks.is_first()) print_overview(settings, ranks, data, length, state, checkpoint);
    if (ranks.is_first()) print_summary(settings, data, state);
    ranks.world().leave();
    return 0;
  }
  RunFolder folder(settings);
  Metrics metrics = folder.begin(state.step());
  if (ranks.is_first()) print_overview(settings, ranks, data, length, state, checkpoint);

  const StopSignal stop;
  Progress progress(settings.progress, length, ranks.is_first() ? stdout : nullptr);
  Trainer trainer(settings, ranks, data, length, state, metrics, progress, folder.checkpoints(), stop);
  return telling_others(ranks, [&] {
    const std::int64_t first_step = state.step();
    if (hooks.before_training) hooks.before_training(state.model(), ranks.rank());
    if (!settings.eval_only) trainer.run();
    const bool has_trained = state.step() > first_step;

    if (has_trained) {
      check_weights(state.model());
      trainer.save_checkpoint();
    }
    if (settings.save_weights) data::save_safetensors(*settings.save_weights, state.model().state_dict());
    if (settings.save_model) save_pretrained(*settings.save_model, settings, data, state.model());
    if (settings.save_grads) save_gradients(*settings.save_grads, state.model());
    const bool is_due = settings.eval_only || (has_trained && settings.eval_every != 0 && !trainer.is_evaluated());
    if (trainer.stopped_by() == 0) evaluate_at_end(settings, ranks, data, state, is_due, stop, metrics, progress);
    ranks.verify("the ranks' weights", {"weights with hash " + weights_hash(state.model())});
    const int signal = ranks.any_signal(trainer.stopped_by() ? trainer.stopped_by() : stop.received());
    metrics.done(signal == 0, state.step(), state.model());
    if (hooks.before_leaving) hooks.before_leaving(ranks.rank());
    ranks.world().leave();
    if (signal) return signal;
    progress.line(settings.eval_only ? "done" : fmt::format("done: {} of {} steps", state.step(), length.total_steps));
    return 0;
  });
}

// Another rank's failure reaches this one at its next wait; a rank that does not wait is ended after this.
constexpr std::chrono::milliseconds kGrace{3000};

}  // namespace

int run(const Settings& settings, const RunHooks& hooks) {
  Ranks ranks(settings);
  const ForcedEnd forced_end(ranks.world().watch(), kGrace);
  return telling_others(ranks, [&] { return run_rank(settings, ranks, hooks); });
}

}  // namespace tandem::train
