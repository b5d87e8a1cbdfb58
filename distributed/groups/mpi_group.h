// Groups over MPI, for machines whose MPI knows their network best: MPI's own collectives, in their non-blocking form.
//
// Each group has a communicator of all ranks of MPI_COMM_WORLD. Programs are started by mpirun or srun; MPI is started
// by the first group, and ended when the process exits, unless somebody else started it.
//
// What differs from other groups: MPI cannot be told to give a collective up. abort() and deadlines do wake whoever
// waits, but the tensors of a collective that was cut off may still be written to, so they are kept for ever, and the
// process ends without MPI_Finalize, on which mpirun ends the run. Peers do not learn of an abort by themselves, and a
// rank that dies is noticed by mpirun or the watch, not by the group. The first group waits in MPI_Init_thread for all
// ranks, without a deadline. bytes_sent() is what was handed to MPI.
#pragma once

#include <memory>
#include <string>

#include "tandem/distributed/groups/group_options.h"
#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// This process in the run. MPI numbers and counts processes on its own: a program that mpirun did not start is alone.
struct MpiMember {
  int rank = 0;
  int size = 1;
};

/// Collective. Throws Error if MPI's rank or number of processes is not `member`'s, if this build has no MPI, or if MPI
/// was started by somebody else without threads (less than MPI_THREAD_SERIALIZED); TimeoutError if ranks do not come;
/// PeerError if the watch knows of a failure.
std::shared_ptr<ProcessGroup> make_mpi_group(const std::string& name, const MpiMember& member,
                                             const GroupOptions& options);

}  // namespace tandem::distributed
