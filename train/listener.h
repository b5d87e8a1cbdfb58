// Listener: what a Trainer tells of its run, for metrics, progress, profiles and checkpoints, or for a caller's own
// use.
#pragma once

#include "tandem/distributed/reducer.h"
#include "tandem/train/evaluation.h"
#include "tandem/train/training_state.h"
#include "tandem/train/update_report.h"

namespace tandem::train {

class Listener {
 public:
  virtual ~Listener() = default;

  /// After each update. `reducer` has the record of how its gradients were sent.
  virtual void update(const UpdateReport&, const distributed::Reducer&) {}
  /// After each evaluation, which was made after update `step` in epoch `epoch` (counted from 1; 0 before any update).
  virtual void evaluation(std::int64_t /*step*/, std::int64_t /*epoch*/, const Evaluation&) {}
  /// The state is to be kept: it is finite, and the same update on all ranks.
  virtual void checkpoint(const TrainingState&) {}

 protected:
  Listener() = default;
  Listener(const Listener&) = default;
  Listener& operator=(const Listener&) = default;
};

}  // namespace tandem::train
