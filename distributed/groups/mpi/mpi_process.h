// MpiProcess: this process as a member of MPI_COMM_WORLD, and the one lock around all calls of MPI.
//
// No call blocks: requests are started and tested, so the lock is held briefly and any thread may use MPI.
#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tandem/distributed/groups/transport.h"

namespace tandem::distributed {

class MpiProcess {
 public:
  /// Starts MPI where nobody has. Throws Error.
  static MpiProcess& get();
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// All ranks; only for MPI_Comm_idup.
  MPI_Comm all() const { return all_; }

  /// Calls `function`, which returns MPI's code, under the lock. Throws TransportError of no peer with MPI's words.
  template <class F>
  void call(const char* what, F&& function) {
    const std::lock_guard lock(mutex_);
    check(what, std::forward<F>(function)());
  }
  /// A request was given up that still uses `memory`: it stays, and MPI will not be ended in good order.
  void abandon(std::shared_ptr<void> memory);
  /// An exception passes: other ranks may wait for ever in MPI_Finalize if this one did.
  void end_without_finalize() { finalizes_ = false; }

 private:
  MpiProcess();
  static void check(const char* what, int code);

  std::mutex mutex_;
  bool is_owner_ = false;  // of MPI's start and end
  std::atomic<bool> finalizes_{true};
  int rank_ = 0, size_ = 1;
  MPI_Comm all_ = MPI_COMM_NULL;
  std::vector<std::shared_ptr<void>>* abandoned_;  // never freed
};

/// For loops over MPI_Test. Waiting for peers, which may compute for long, gives the processor away; moving numbers,
/// which MPI does only in calls, hands it over just for once.
enum class MpiWaiting : std::uint8_t { for_peers, for_numbers };
void pause_between_tests(MpiWaiting waiting, int tests);

}  // namespace tandem::distributed
