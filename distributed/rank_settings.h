// Who this process is in a run: from flags, else from the environment of whoever started it.
//
//   launch    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT; TANDEM_LAUNCH=1: it serves the
//             store
//   torchrun  the same but the last; its agent listens on MASTER_PORT already, so rank 0 serves on the next port
//   Open MPI  OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE. With all ranks on one machine they need no
//             MASTER_ADDR: rank 0 leaves its port in the folder that mpirun makes for its processes
//   PMI       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   Slurm     SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; but in a batch script, where SLURM_STEP_ID is missing, srun
//   has
//             not started this process: then it is a run of one rank
//
// Where several are there, the first of this list counts, and no two are mixed: one's rank never goes with another's
// size. MASTER_ADDR and MASTER_PORT count for each of them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

/// What flags say; none: not given.
struct RankOptions {
  std::optional<std::int64_t> rank, world_size, local_rank, local_world_size;
  std::string init = "env://";           ///< env://, tcp://HOST:PORT, file:///PATH
  std::optional<std::string> interface;  ///< name or address; none: the one that routes to the master
  Milliseconds timeout{300000};          ///< of every wait on another rank
};

struct RankSettings {
  int rank = 0;
  int world_size = 1;
  std::optional<int> local_rank, local_world_size;  ///< none: counted when ranks meet

  enum class Meeting : std::uint8_t { none, tcp, file };  ///< none: a run of one rank
  Meeting meeting = Meeting::none;
  std::string host;        ///< tcp
  std::uint16_t port = 0;  ///< tcp; 0: rank 0 takes one that is free, and writes it into port_file
  std::string port_file;
  bool serves_store = false;  ///< tcp: this rank does, else somebody else
  std::string store_server;   ///< tcp: who does, for messages: "rank 0", "launch"
  std::string path;           ///< file

  std::string warning;  ///< what looks wrong though it may be meant; empty: nothing
  std::string source;   ///< where rank and world size come from, for messages: "--rank", "RANK", "SLURM_PROCID"
  std::optional<std::string> interface;
  Milliseconds timeout{300000};
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// Of this process.
std::optional<std::string> process_environment(const std::string& name);

/// Throws Error of one line if something is missing or contradicts: the flag or variable, its value, what to set.
RankSettings resolve_rank(const RankOptions& options, const Environment& environment = process_environment);

}  // namespace tandem::distributed
