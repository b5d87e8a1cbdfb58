#include "tandem/train/train_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <new>

#include "tandem/train/checkpoint_folder.h"
#include "tandem/train/forced_end.h"
#include "tandem/train/metrics.h"
#include "tandem/train/progress.h"
#include "tandem/train/telling_others.h"
#include "tandem/train/write_lock.h"

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

RunIdentity identity_of(const TrainModelOptions& options, const Ranks& ranks) {
  const TrainerOptions& trainer = options.trainer;
  RunIdentity run;
  run.fixed = {{"samples", std::to_string(trainer.train->size())},
               {"ranks", std::to_string(ranks.size())},
               {"batch size", std::to_string(trainer.batch_size)},
               {"accumulation steps", std::to_string(trainer.accumulation_steps)},
               {"seed", std::to_string(trainer.seed)}};
  run.fixed.insert(options.identity.begin(), options.identity.end());
  return run;
}

// Every rank reads the checkpoint, as it reads the data.
void resume(const fs::path& folder, const RunIdentity& identity, TrainingState& state) {
  const auto newest = read_newest_checkpoint(folder);
  if (!newest) return;
  try {
    restore(newest->contents, identity, /*is_new_length_meant=*/false, state);
  } catch (const core::Error& error) {
    core::fail("{}: {}", newest->path.string(), error.what());
  }
}

/// What rank 0 keeps of a run.
class Kept {
 public:
  Kept(const TrainModelOptions& options, const RunIdentity& identity, std::int64_t step, bool is_first,
       StopSignal& stop) {
    std::vector<fs::path> files;
    if (is_first && !options.out.empty()) {
      folder_.emplace(options.out);
      lock_.emplace(options.out);
      checkpoints_.emplace(options.out / "checkpoints", /*may_hold_some=*/true);
      keeper_.emplace(*checkpoints_, identity);
      files.push_back(options.out / "metrics.jsonl");
    }
    metrics_.emplace(files, step, stop);
    if (checkpoints_) checkpoints_->keep(step);
    if (folder_) folder_->keep();
  }

  Metrics& metrics() { return *metrics_; }
  void add_to(std::vector<Listener*>& listeners) {
    listeners.push_back(&*metrics_);
    if (keeper_) listeners.push_back(&*keeper_);
  }

 private:
  std::optional<CreatedFolder> folder_;
  std::optional<WriteLock> lock_;
  std::optional<CheckpointFolder> checkpoints_;
  std::optional<CheckpointKeeper> keeper_;
  std::optional<Metrics> metrics_;
};

TrainModelResult train(const TrainModelOptions& options, Ranks& ranks, TrainingState& state, StopSignal& stop) {
  const RunIdentity identity = identity_of(options, ranks);
  if (!options.out.empty()) resume(options.out / "checkpoints", identity, state);
  stop.defer();
  ranks.verify("what the ranks read", {fmt::format("{} training samples", options.trainer.train->size()),
                                       fmt::format("checkpoints up to step {}", state.step())});
  Kept kept(options, identity, state.step(), ranks.is_first(), stop);
  state.evaluated_step = ranks.from_first(kept.metrics().evaluated_step());
  Progress progress(options.progress, options.trainer.total_steps, stop, ranks.is_first() ? stdout : nullptr);
  std::vector<Listener*> listeners{&progress};
  kept.add_to(listeners);
  listeners.insert(listeners.end(), options.listeners.begin(), options.listeners.end());
  Trainer trainer(options.trainer, ranks, state, listeners, stop);

  const std::int64_t first_step = state.step();
  trainer.run();
  if (state.step() > first_step) trainer.save_checkpoint();
  TrainModelResult result;
  if (trainer.stopped_by() == 0 && options.trainer.eval_every != 0) {
    const bool is_new = !state.is_evaluated();
    result.evaluation = trainer.evaluate();
    if (result.evaluation && is_new) trainer.tell(*result.evaluation);
  }
  ranks.verify("the ranks' weights", {"weights with hash " + weights_hash(state.model())});
  result.stopped_by = ranks.any_signal(trainer.stopped_by() ? trainer.stopped_by() : stop.received());
  kept.metrics().done(result.stopped_by == 0, state.step(), state.model());
  ranks.world().leave();
  if (result.stopped_by)
    progress.line(fmt::format("stopped after step {} of {}", state.step(), options.trainer.total_steps));
  return result;
}

}  // namespace

TrainModelResult train_model(const TrainModelOptions& options, Ranks& ranks, TrainingState& state, StopSignal& stop) {
  const ForcedEnd forced_end(ranks.world().watch());
  return telling_others(ranks, [&] { return train(options, ranks, state, stop); });
}

int run_program(const char* program, const std::function<TrainModelResult(StopSignal&)>& body) {
  const auto fail = [program](int code, std::string cause) {
    std::replace(cause.begin(), cause.end(), '\n', ' ');
    std::fflush(stdout);
    std::fputs(fmt::format("{}: error: {}\n", program, cause).c_str(), stderr);
    return code;
  };
  try {
    StopSignal stop;
    const int signal = body(stop).stopped_by;
    return signal == 0 ? 0 : 128 + signal;
  } catch (const distributed::PeerError& error) {
    return fail(3, error.what());
  } catch (const std::bad_alloc&) {
    return fail(1, "out of memory");
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}

}  // namespace tandem::train
