// From name to group: a communicator of its own.
#include "tandem/distributed/groups/mpi_group.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "tandem/core/error.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/mpi/mpi_process.h"
#include "tandem/distributed/groups/mpi/mpi_runner.h"
#include "tandem/distributed/groups/queued_group.h"

namespace tandem::distributed {

namespace {

// What MPI_Comm_idup writes into, kept where it is given up.
struct Duplication {
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
};

MPI_Comm duplicate_all(MpiProcess& process, const std::string& name, const GroupOptions& options) {
  const auto made = std::make_shared<Duplication>();
  const auto deadline = Transport::Clock::now() + options.timeout;
  const auto give_up = [&] { process.abandon(made); };
  process.call("MPI_Comm_idup", [&] { return MPI_Comm_idup(process.all(), &made->communicator, &made->request); });
  for (int tests = 0;; ++tests) {
    int is_done = 0;
    process.call("MPI_Comm_idup", [&] { return MPI_Test(&made->request, &is_done, MPI_STATUS_IGNORE); });
    if (is_done != 0) return made->communicator;
    if (const auto failure = options.watch ? options.watch->failure() : std::nullopt) {
      give_up();
      throw PeerError(fmt::format("group {}: {}", name, failure->cause));
    }
    if (Transport::Clock::now() > deadline) {
      give_up();
      throw TimeoutError(fmt::format("group {}: after {} s rank {} still waits for other ranks to come", name,
                                     in_seconds(options.timeout), process.rank()));
    }
    pause_between_tests(MpiWaiting::for_peers, tests);
  }
}

// Without this, ranks that MPI does not know as one run would train apart, each content with its own gradients.
void check_member(const MpiProcess& process, const std::string& name, const MpiMember& member) {
  if (process.size() != member.size)
    core::fail(
        "group {}: MPI started {} {}, the run has {}: start the ranks with mpirun or srun (mpirun -n {} train "
        "--backend mpi ...), not with launch or by hand; or choose --backend gloo",
        name, process.size(), process.size() == 1 ? "process" : "processes", member.size, member.size);
  if (process.rank() != member.rank)
    core::fail(
        "group {}: rank {} of the run is rank {} for MPI: leave the ranks' numbers to mpirun or srun (no --rank, "
        "no RANK)",
        name, member.rank, process.rank());
}

}  // namespace

std::shared_ptr<ProcessGroup> make_mpi_group(const std::string& name, const MpiMember& member,
                                             const GroupOptions& options) try {
  MpiProcess& process = MpiProcess::get();
  check_member(process, name, member);
  std::unique_ptr<JobRunner> runner;
  if (process.size() > 1) runner = std::make_unique<MpiRunner>(process, duplicate_all(process, name, options));
  auto duplicate = [member, options](const std::string& other) { return make_mpi_group(other, member, options); };
  return std::make_shared<QueuedGroup>(name, member.rank, member.size, options, std::move(runner),
                                       std::move(duplicate));
} catch (const TransportError& error) {
  core::fail("group {}: {}", name, error.what());
}

}  // namespace tandem::distributed
