#include "tools/train/run.h"

#include "tandem/core/files/safetensors.h"
#include "tandem/core/parallel.h"
#include "tandem/core/start_thread.h"
#include "tandem/distributed/error.h"
#include "tandem/train/forced_end.h"
#include "tandem/train/profile.h"
#include "tandem/train/progress.h"
#include "tandem/train/ranks.h"
#include "tandem/train/telling_others.h"
#include "tandem/train/trainer.h"
#include "tools/train/files/finished_run.h"
#include "tools/train/files/pretrained.h"
#include "tools/train/files/run_folder.h"
#include "tools/train/files/run_identity.h"
#include "tools/train/report/overview.h"
#include "tools/train/report/summary.h"
#include "tools/train/settings/bert_settings.h"
#include "tools/train/settings/narrow_options.h"

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

// The state that --resume continues from. If there is none yet the run begins, so that one command serves both.
std::optional<Resumed> resume(const Settings& settings, const Ranks& ranks, const DataSource& data,
                              const Length& length, TrainingState& state) {
  if (!settings.resume) return std::nullopt;
  const std::string folder = *checkpoint_folder(settings);
  const auto newest = read_newest_checkpoint(folder);
  if (!newest && settings.eval_only) core::fail("--resume: no checkpoint in {}", folder);
  if (!newest) return std::nullopt;
  Resumed resumed{.checkpoint = newest->path, .damaged = newest->damaged, .changed = {}};
  try {
    const bool is_any_length_fine = settings.lr_steps || settings.eval_only;
    resumed.changed = restore(newest->contents, run_identity(settings, ranks.size(), data), is_any_length_fine, state);
    if (!settings.eval_only) check_position(settings, length, state);
  } catch (const OtherLength& error) {
    core::fail("{}: {}; give the same --epochs and --steps as before, or the updates over which it falls as --lr-steps",
               newest->path.string(), error.what());
  } catch (const core::Error& error) {
    core::fail("{}: {}", newest->path.string(), error.what());
  }
  return resumed;
}

void save_gradients(const std::string& path, const nn::Module& model) {
  core::StateDict gradients;
  for (const auto& [name, variable] : model.named_parameters())
    if (variable.grad().defined()) gradients.emplace_back(name, variable.grad());
  if (gradients.empty()) core::fail("--save-grads {}: no update was made, so there are no gradients", path);
  core::save_safetensors(path, gradients);
}

// Evaluates if that is due, and once more if outputs are wanted.
void evaluate_at_end(const Settings& settings, const Ranks& ranks, const TrainingState& state, Trainer& trainer) {
  const bool is_due = settings.eval_only || (state.step() > 0 && settings.eval_every != 0 && !state.is_evaluated());
  if (!is_due && !settings.save_outputs) return;
  Outputs outputs;
  const auto result = trainer.evaluate(settings.save_outputs ? &outputs : nullptr);
  if (!result) return;
  if (is_due) trainer.tell(*result);
  if (settings.save_outputs && ranks.is_first()) core::save_safetensors(*settings.save_outputs, outputs);
}

// Before the first update: what would make ranks compute different things, named while nothing is lost.
void verify_ranks(const Settings& settings, Ranks& ranks, const DataSource& data, const TrainingState& state) {
  ranks.verify(
      "what the ranks read",
      {fmt::format("{} training and {} test samples", data.train->size(), data.test->size()),
       "data with hash " + contents_fingerprint(data), "a model configuration with hash " + model_fingerprint(settings),
       fmt::format("checkpoints up to step {}", state.step())});
}

void load_stored(const Settings& settings, const DataSource& data, const StoredWeights& stored, InitialState& begun) {
  check_class_names(stored, settings, data);
  if (data.tokenizer && !settings.vocab)
    core::fail("--from {}: has no {}, so which words its embeddings are is not known; give --vocab", *settings.from,
               data::kTokenizerFile);
  begun.left_out = load_weights(settings, "--from " + *settings.from, stored.state, begun.state.model());
  begun.weights_from = stored.file;
  for (const std::string& newer : stored.damaged) begun.weights_from += fmt::format("; passed over: {}", newer);
}

RunEnd run_rank(const Settings& given, Ranks& ranks, StopSignal& stop, const RunHooks& hooks) {
  Settings settings = settings_of_rank(given, ranks.rank(), ranks.world().local_size());
  core::check_compute_threads(static_cast<int>(*settings.threads));
  core::set_num_threads(static_cast<int>(*settings.threads));
  std::optional<StoredWeights> stored;
  if (settings.from) fit_settings(stored.emplace(weights_of_run(*settings.from)), settings);
  const DataSource data = open_data(settings);
  const Length length = run_length(settings, ranks.size(), data.train->size());
  InitialState begun = initial_state(settings, data, length);
  TrainingState& state = begun.state;
  if (stored) load_stored(settings, data, *stored, begun);
  const auto resumed = resume(given, ranks, data, length, state);
  stop.defer();  // before ranks meet here: none trains while another would be ended by a signal
  verify_ranks(settings, ranks, data, state);
  if (settings.summary) {
    if (ranks.is_first()) print_overview(settings, ranks, data, length, begun, resumed);
    if (ranks.is_first()) print_summary(settings, data, state);
    ranks.world().leave();
    return {};
  }
  RunFolder folder(settings);
  Metrics metrics = folder.begin(state.step(), given, run_facts(settings, ranks.size()), stop);
  keep_for_later(settings, data, state.model());
  // Rank 0's files may be the only ones.
  state.evaluated_step = ranks.from_first(metrics.evaluated_step());
  if (ranks.is_first()) print_overview(settings, ranks, data, length, begun, resumed);

  Progress progress(settings.progress, length.total_steps, stop, ranks.is_first() ? stdout : nullptr);
  std::vector<Listener*> listeners{&metrics, &progress};
  std::optional<Profile> profile;
  if (settings.profile_out)
    listeners.push_back(&profile.emplace(*settings.profile_out, ranks.rank(), ranks.size(), stop));
  std::optional<CheckpointKeeper> keeper;
  if (folder.checkpoints())
    listeners.push_back(&keeper.emplace(*folder.checkpoints(), run_identity(settings, ranks.size(), data)));
  Trainer trainer(trainer_options(settings, data, length), ranks, state, listeners, stop);
  return telling_others(ranks, [&]() -> RunEnd {
    const std::int64_t first_step = state.step();
    if (hooks.before_training) hooks.before_training(state.model(), ranks.rank());
    if (!settings.eval_only) trainer.run();
    const bool has_trained = state.step() > first_step;

    if (has_trained) trainer.save_checkpoint();
    if (settings.save_weights)
      core::save_safetensors(*settings.save_weights, state.model().state_dict(), weights_metadata(settings, data));
    if (settings.save_model) save_pretrained(*settings.save_model, settings, data, state.model());
    if (settings.save_grads) save_gradients(*settings.save_grads, state.model());
    if (trainer.stopped_by() == 0) evaluate_at_end(settings, ranks, state, trainer);
    ranks.verify("the ranks' weights", {"weights with hash " + weights_hash(state.model())});
    const int signal = ranks.any_signal(trainer.stopped_by() ? trainer.stopped_by() : stop.received());
    metrics.done(signal == 0, state.step(), state.model());
    if (hooks.before_leaving) hooks.before_leaving(ranks.rank());
    ranks.world().leave();
    if (signal) return interruption(given, ranks.is_first(), signal, state.step(), stop.lost_output());
    progress.line(settings.eval_only ? "done" : fmt::format("done: {} of {} steps", state.step(), length.total_steps));
    if (const auto lost = stop.lost_output()) return done_without_output(*lost);
    return {};
  });
}

}  // namespace

RunEnd run(const Settings& settings, StopSignal& stop, const RunHooks& hooks) {
  core::set_default_device(core::parse_device(settings.device));
  Ranks ranks(ranks_options(settings));
  const ForcedEnd forced_end(ranks.world().watch());
  return telling_others(ranks, [&] { return run_rank(settings, ranks, stop, hooks); });
}

}  // namespace tandem::train
