// The ranks of a run, as training sees them: who this one is, and what all of them agree on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tandem/core/tensor.h"
#include "tandem/distributed/process_group.h"
#include "tandem/distributed/world.h"

namespace tandem::train {

struct RanksOptions {
  distributed::RankSettings self;  ///< who this rank is, and where the others meet it
  /// What gradients are sent through.
  distributed::Backend backend = distributed::Backend::gloo;
  int round_robin_groups = 1;      ///< groups that take turns in sending gradients
  bool check_collectives = false;  ///< compare what ranks are about to send before each collective
  /// What must be the same on all ranks, before groups are made: "--batch-size 64".
  std::vector<std::string> settings = {};
};

class Ranks {
 public:
  /// Meets the others. Throws what World throws, and Error if `settings` differ.
  explicit Ranks(const RanksOptions& options);
  /// Who this rank is, says the environment: launch, torchrun, mpirun and srun set it; else it is the only one.
  Ranks();

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  /// Who writes files and talks to people.
  bool is_first() const { return rank() == 0; }
  distributed::World& world() { return world_; }
  const distributed::World& world() const { return world_; }
  /// For metrics and agreements.
  const std::shared_ptr<distributed::ProcessGroup>& group() const { return group_; }
  /// What gradients travel in duplicates of: one group, or several that take turns.
  const std::shared_ptr<distributed::ProcessGroup>& gradients() const { return gradients_; }

  /// Collective. Throws Error on all ranks if their lines differ. Compared through the store: this is to find out
  /// whether the groups do what they should (distributed/agreement.h).
  void verify(const std::string& what, const std::vector<std::string>& lines);
  /// Collective. Rank 0's number, on all ranks.
  std::int64_t from_first(std::int64_t mine);
  /// Collective. The signal that came to any of them, 0 where none did.
  int any_signal(int mine);
  /// "2 ranks on 1 machine".
  std::string describe() const;

 private:
  distributed::Milliseconds timeout_;
  distributed::World world_;
  std::shared_ptr<distributed::ProcessGroup> group_, gradients_;
};

}  // namespace tandem::train
