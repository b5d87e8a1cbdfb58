// The ranks of a run, as training sees them: who this one is, and what all of them agree on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tandem/core/tensor.h"
#include "tandem/distributed/process_group.h"
#include "tandem/distributed/world.h"
#include "tools/train/settings/settings.h"

namespace tandem::train {

class Ranks {
 public:
  /// Meets the others. Throws UsageError where flags and environment do not say who this is, else as World.
  explicit Ranks(const Settings& settings);

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
  /// Collective. The signal that came to any of them, 0 where none did.
  int any_signal(int mine);
  /// "2 ranks on 1 machine".
  std::string describe() const;

 private:
  distributed::Milliseconds timeout_;
  distributed::World world_;
  std::shared_ptr<distributed::ProcessGroup> group_, gradients_;
};

/// The same settings, made those of `rank`, one of `local_size` on this machine: its threads (core/thread_count.h), and
/// files that do not collide with others'. Ranks other than the first write nothing but --metrics and --profile-out, to
/// F.rankN; what all do together, such as --checkpoint-every's gathering of buffers, stays.
Settings settings_of_rank(const Settings& settings, int rank, int local_size);

}  // namespace tandem::train
