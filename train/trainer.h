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

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/data/loader.h"
#include "tandem/distributed/distributed_data_parallel.h"
#include "tandem/train/evaluation.h"
#include "tandem/train/exchange.h"
#include "tandem/train/item_count.h"
#include "tandem/train/listener.h"
#include "tandem/train/ranks.h"

namespace tandem::train {

struct TrainerOptions {
  std::shared_ptr<const data::Dataset> train, test;
  bool shuffle = true;                  ///< the training samples, anew in each epoch
  std::int64_t batch_size = 64;         ///< per rank and micro-step
  std::int64_t accumulation_steps = 1;  ///< micro-steps per update
  std::int64_t total_steps = 0;         ///< updates of the whole run, those before a resumption included
  std::optional<std::int64_t> eval_every = {}, checkpoint_every = {};  ///< updates, 0: never; none: each epoch
  std::optional<double> clip_grad_norm = {};                           ///< the largest norm of all gradients together
  int data_threads = 1;                                                ///< that read and decode one batch
  std::uint64_t seed = 0;
  distributed::DataParallelOptions data_parallel = distributed::DataParallelOptions();  // GCC 12 warns of {}
  /// Ends the message of a run whose numbers are no longer finite.
  std::string advice = "a lower learning rate, a warm-up or clipping of gradients may help";
};

class Trainer {
 public:
  /// All but the options must outlive it. It tells the listeners in their order.
  Trainer(TrainerOptions options, Ranks& ranks, TrainingState& state, std::vector<Listener*> listeners,
          const StopSignal& stop);

  /// Collective. Trains from where the state is to the end of the run, or to the update or evaluation during which a
  /// signal came to any rank. Evaluates as it is due, but not at the end of the run. If the state is of an update that
  /// an evaluation belongs to, and that is missing, it begins with it. Gradients of the last update are left in the
  /// model. Throws Error if the loss, the gradients' norm or what is to be kept in a checkpoint is no longer finite.
  void run();
  /// The signal that ended it before its time, the same on all ranks; else 0.
  int stopped_by() const { return stopped_by_; }
  /// Collective. Throws Error if the state is not finite; else has the listeners keep it as it is now.
  void save_checkpoint();
  /// Collective. Evaluates the state as it is. None if a signal came meanwhile: then the run is stopped. If it fails,
  /// the listeners keep the state.
  std::optional<Evaluation> evaluate(Outputs* outputs = nullptr);
  /// Tells the listeners of it.
  void tell(const Evaluation& result);

 private:
  bool is_finished() const { return state_.step() >= options_.total_steps || stopped_by_ != 0; }
  void run_epoch();
  bool is_due(const std::optional<std::int64_t>& every) const;
  void evaluate_if_due();
  void keep_in_spite_of_failure();
  void update(const data::Window& window, UpdateReport& report);
  void forward_backward(const data::Window& window, std::int64_t micro_step, ItemCount& items,
                        std::vector<core::Tensor>& terms, Exchange& exchange, UpdateReport& report);
  void step(UpdateReport& report);
  void after_update(UpdateReport& report);

  const TrainerOptions options_;
  Ranks& ranks_;
  TrainingState& state_;
  const std::vector<Listener*> listeners_;
  const StopSignal& stop_;

  distributed::DistributedDataParallel ddp_;
  std::vector<nn::Variable> parameters_;
  data::Sampler sampler_;
  data::Loader loader_;
  int stopped_by_ = 0;
};

}  // namespace tandem::train
