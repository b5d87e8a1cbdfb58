// MpiRunner: carries collectives out by MPI's, on a communicator of its own.
//
// Before each one, ranks exchange signatures: since MPI goes wrong in its own ways where ranks differ, and since ranks
// that do not come are then missed before MPI has got hold of the caller's memory.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "tandem/distributed/groups/job_runner.h"
#include "tandem/distributed/groups/mpi/mpi_process.h"

namespace tandem::distributed {

class MpiRunner final : public JobRunner {
 public:
  /// So that bytes fit into int too, in which some parts of MPI libraries count.
  static constexpr std::int64_t kMostElements = std::int64_t{1} << 27;

  /// `most_elements`: of one call of MPI; longer tensors go in pieces.
  MpiRunner(MpiProcess& process, MPI_Comm communicator, std::int64_t most_elements = kMostElements);
  ~MpiRunner() override;

  std::int64_t run(const Job& job, std::uint64_t sequence, Transport::Clock::time_point deadline) override;
  std::string current() const override { return signature_.str(); }
  void end() override {}
  /// Keeps the memory where MPI still uses it.
  void forget() override;
  void abort() override { is_aborted_ = true; }

 private:
  void agree();
  void dispatch(const Job& job);
  void all_gather(const Job& job);
  void reduce_scatter(const Job& job);
  void send(const Job& job);
  void receive(const Job& job);
  /// Calls f(begin, count) for each piece of `numel` elements.
  template <class F>
  void in_pieces(std::int64_t numel, F&& f) const;
  /// Starts a request, `start(&request)`, and waits for it.
  template <class F>
  void complete(const char* what, MpiWaiting waiting, F&& start);
  void await(const char* what, MpiWaiting waiting);
  int first_missing() const;

  MpiProcess& process_;
  MPI_Comm communicator_;
  const std::int64_t most_elements_;
  const int exceptions_;
  std::atomic<bool> is_aborted_{false};

  const Job* job_ = nullptr;
  Signature signature_;
  Transport::Clock::time_point deadline_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::shared_ptr<std::vector<Signature>> signatures_;  // of all ranks, and this rank's own behind them
  std::vector<std::uint64_t> sent_to_, received_from_;  // messages of send and recv, by peer
};

}  // namespace tandem::distributed
