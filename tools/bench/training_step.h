// The step that `bench step` times: forward, backward, optimizer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/distributed/distributed_data_parallel.h"
#include "tandem/distributed/world.h"
#include "tandem/optim/optimizer.h"
#include "tools/bench/workload.h"

namespace tandem::bench {

struct OptimizerSettings {
  std::string name;  ///< as optim::make_optimizer takes it
  double momentum = 0;
};

/// Milliseconds, one value a step.
struct StepTimes {
  std::vector<double> total, forward, backward, optimizer;
};

class TrainingStep {
 public:
  TrainingStep(const WorkloadSettings& workload, const OptimizerSettings& optimizer);

  /// `times`: where to put what each step took, or nullptr. What the recorder is told, where it is on: phases "step",
  /// "forward", "backward" and the optimizer's name.
  void run(std::int64_t steps, StepTimes* times);
  /// From now on the model is one rank's copy.
  void wrap(distributed::World& world) { ddp_.emplace(workload_->module(), world.make_group("bench")); }

  const Workload& workload() const { return *workload_; }
  double last_loss() const { return last_loss_; }

 private:
  nn::Variable forward();
  void run_one(StepTimes* times);

  std::unique_ptr<Workload> workload_;
  std::optional<distributed::DistributedDataParallel> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::uint32_t step_ = 0;
  double last_loss_ = 0;
};

}  // namespace tandem::bench
