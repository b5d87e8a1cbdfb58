// Groups of ranks that are threads of one process: for tests, and to see collectives at work in one debugger.
#pragma once

#include <memory>
#include <string>

#include "tandem/distributed/groups/group_options.h"
#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// What joins the threads: each asks the same network for its member of a group.
class ThreadNetwork {
 public:
  explicit ThreadNetwork(int size);
  ~ThreadNetwork();
  ThreadNetwork(const ThreadNetwork&) = delete;
  ThreadNetwork& operator=(const ThreadNetwork&) = delete;

  int size() const;
  /// Rank `rank`'s member of the group `name`; the network must outlive it. Returns at once: the others may come later.
  std::shared_ptr<ProcessGroup> join(const std::string& name, int rank, const GroupOptions& options = {});

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace tandem::distributed
