// QueuedGroup: a group whose collectives are run by a thread of its own, one after the other, over a transport or by a
// runner of another kind.
//
// This is where failures become messages: a transport knows the peer and the reason, the group knows the collective and
// what it was about, and the watch knows who failed first. After a failure the group is of no more use.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tandem/distributed/groups/collective_runner.h"
#include "tandem/distributed/groups/group_options.h"
#include "tandem/distributed/groups/job_runner.h"
#include "tandem/distributed/groups/lane.h"
#include "tandem/distributed/groups/transport.h"
#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

class QueuedGroup final : public ProcessGroup {
 public:
  using Duplicate = std::function<std::shared_ptr<ProcessGroup>(const std::string& name)>;

  /// `transport` is null, and there is no thread, where `size` is 1.
  QueuedGroup(const std::string& name, int rank, int size, GroupOptions options, std::unique_ptr<Transport> transport,
              Duplicate duplicate);
  /// The same for `runner`.
  QueuedGroup(const std::string& name, int rank, int size, GroupOptions options, std::unique_ptr<JobRunner> runner,
              Duplicate duplicate);
  ~QueuedGroup() override;

  std::shared_ptr<ProcessGroup> duplicate(const std::string& name) override { return duplicate_(name); }
  void abort(const std::string& cause) override;
  WorkPtr submit(Collective collective) override;

 private:
  struct Issued {
    Job job;
    WorkPtr work;
  };

  void run_one(const Issued& issued);
  void run_at_once(const Job& job, Work& work);
  void finish(const Issued& issued, const std::exception_ptr& error, std::int64_t bytes = 0);
  /// What the collective ends with; tells the watch, and aborts the group.
  std::exception_ptr failure_of(const TransportError& error, const std::string& title);
  std::string in_words_of(int peer) const;
  void end_with(const std::string& cause);
  std::optional<std::string> cause() const;
  /// The first cause stays.
  std::string set_cause(const std::string& cause);

  GroupOptions options_;
  std::unique_ptr<JobRunner> runner_;
  Duplicate duplicate_;
  std::uint64_t sequence_ = 0;       // of the next collective; send and recv do not count
  std::atomic<int> unfinished_ = 0;  // collectives whose work has not ended

  mutable std::mutex mutex_;
  std::optional<std::string> cause_;  // the group is aborted

  std::shared_ptr<void> watching_;
  std::unique_ptr<Lane<Issued>> lane_;
};

}  // namespace tandem::distributed
