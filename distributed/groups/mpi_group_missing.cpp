// Compiled instead of the other mpi_*.cpp where no MPI was found.
#include "tandem/core/error.h"
#include "tandem/distributed/groups/mpi_group.h"

namespace tandem::distributed {

std::shared_ptr<ProcessGroup> make_mpi_group(const std::string& name, const MpiMember& /*member*/,
                                             const GroupOptions& /*options*/) {
  core::fail("group {}: this build has no MPI; install libopenmpi-dev and openmpi-bin, then configure and build again",
             name);
}

}  // namespace tandem::distributed
