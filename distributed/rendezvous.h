// How ranks find each other in a store: each claims its number, says who it is, and waits for the others.
#pragma once

#include <string>
#include <vector>

#include "tandem/distributed/awake_clock.h"
#include "tandem/distributed/rank_settings.h"
#include "tandem/distributed/store.h"
#include "tandem/distributed/watch.h"

namespace tandem::distributed {

/// The first thing that a rank writes in the store.
constexpr const char* kWorldSizeKey = "world_size";

/// The process that a rank lives in, as it introduces itself.
struct Identity {
  std::string host;  ///< its name, for messages
  std::int64_t process = 0;
  std::string machine;        ///< equal where two reach each other over loopback: boot and network namespace
  std::string process_space;  ///< equal where numbers of processes mean the same: boot and namespace
  std::string address;        ///< literal, of the interface to the other ranks; may be loopback, or empty: not known
  std::string id;             ///< random: two ranks of one process differ

  std::string encode() const;
  /// Throws Error where `text` is something else.
  static Identity decode(const std::string& text);
  /// "process 4711 on host node1".
  std::string str() const;
};

/// Of this process; no address yet.
Identity own_identity();
/// Whether it certainly has: its process was of this machine and is no more.
bool has_ended(const Identity& identity);

/// Makes this rank's number its own. Throws Error where another has it, where another rank says another world size
/// (which ends the run for all), and where a file is left over from another run.
void claim_rank(Store& store, const RankSettings& settings, const Identity& identity);

/// Introduces this rank and waits for all others until `deadline`; says on stderr, once, for whom it has been waiting
/// for long, and, if this rank serves the store, that it listens on `place`. Throws TimeoutError that names who is
/// missing, which ends the run for all, and PeerError for a failure.
std::vector<Identity> meet_members(Store& store, Watch& watch, const RankSettings& settings, const Identity& identity,
                                   const std::string& place, AwakeClock::time_point deadline);

/// This rank's address for connections between ranks: loopback where all are on one machine, else one that the others
/// can reach. Throws Error where there is none.
std::string choose_data_address(const std::vector<Identity>& members, int rank);

}  // namespace tandem::distributed
