// The training loop.
//
// Words: a window is what one update is computed from, up to accumulation-steps micro-steps of batch-size rows each.
// The window at an epoch's end may have fewer micro-steps, and its last one fewer rows; the loss is always the mean
// over the items (rows, predicted tokens) that it has.
//
// Ranks take every W-th row of a global batch, so in one micro-step a rank may have fewer items than others, or none.
// Each scales the sum of its losses by W / items of the window; DistributedDataParallel averages over W; what remains
// is the mean over all items, exactly. A window without items changes no weight.
#pragma once

#include "tandem/data/loader.h"
#include "tandem/distributed/distributed_data_parallel.h"
#include "tools/train/evaluation.h"
#include "tools/train/exchange.h"
#include "tools/train/files/checkpoint_folder.h"
#include "tools/train/ranks.h"
#include "tools/train/report/metrics.h"
#include "tools/train/report/profile.h"
#include "tools/train/report/progress.h"
#include "tools/train/tasks/data_source.h"
#include "tools/train/tasks/item_count.h"

namespace tandem::train {

class Trainer {
 public:
  /// All of these must outlive it. `checkpoints` may be null.
  Trainer(const Settings& settings, Ranks& ranks, const DataSource& data, const Length& length, TrainingState& state,
          Metrics& metrics, Progress& progress, CheckpointFolder* checkpoints, StopSignal& stop);

  /// Collective. Trains from where the state is to the end of the run, or to the update or evaluation during which a
  /// signal came to any rank. Evaluates as it is due, but not at the end of the run. If the state is of an update that
  /// an evaluation belongs to, and that is missing, it begins with it. Gradients of the last update are left in the
  /// model. Throws Error if the loss, the gradients' norm or what is to be kept in a checkpoint is no longer finite.
  void run();
  /// The signal that ended it before its time, the same on all ranks; else 0.
  int stopped_by() const { return stopped_by_; }
  /// Collective. Throws Error if the state is not finite; keeps it as it is now, if the run keeps checkpoints.
  void save_checkpoint();
  /// Collective. Evaluates the state as it is. None if a signal came meanwhile: then the run is stopped. If it fails,
  /// the state is kept, if the run keeps checkpoints.
  std::optional<Evaluation> evaluate(Outputs* outputs = nullptr);
  /// Tells metrics and progress of it.
  void tell(const Evaluation& result);

 private:
  bool is_finished() const { return state_.step() >= length_.total_steps || stopped_by_ != 0; }
  void run_epoch();
  bool is_due(const std::optional<std::int64_t>& every) const;
  void evaluate_if_due();
  void keep_in_spite_of_failure();
  void update(const data::Window& window, UpdateReport& report);
  void forward_backward(const data::Window& window, std::int64_t micro_step, ItemCount& items,
                        std::vector<core::Tensor>& terms, Exchange& exchange, UpdateReport& report);
  void step(UpdateReport& report);
  void after_update(const UpdateReport& report);

  const Settings& settings_;
  Ranks& ranks_;
  const DataSource& data_;
  const Length length_;
  TrainingState& state_;
  Metrics& metrics_;
  Progress& progress_;
  CheckpointFolder* checkpoints_;
  const RunIdentity identity_;
  const StopSignal& stop_;

  distributed::DistributedDataParallel ddp_;
  std::vector<nn::Variable> parameters_;
  std::optional<Profile> profile_;
  data::Sampler sampler_;
  data::Loader loader_;
  int stopped_by_ = 0;
};

}  // namespace tandem::train
