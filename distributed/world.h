// World: a rank's membership in a run, from rendezvous to goodbye.
//
//   World world(options);                         // meets the other ranks
//   auto group = world.make_group("gradients");   // all ranks, in the same order
//   ...
//   world.leave();                                // all have come to their end; else the destructor does it
//
// Ranks are processes, or threads of one process (run_as_threads).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/distributed/process_group.h"
#include "tandem/distributed/rank_settings.h"
#include "tandem/distributed/watch.h"

namespace tandem::distributed {

/// Of the process that a rank lives in.
struct Member {
  std::string host;  ///< its name, for messages
  std::int64_t process = 0;
};

/// What a group communicates through. memory: only for ranks that are threads of one process.
enum class Backend : std::uint8_t { gloo, mpi, memory };

class World {
 public:
  /// Meets the other ranks of `settings`, for which all of them are waited up to the timeout. One clear Error each,
  /// within a second of knowing: no master there, port in use, a rank that is taken, another world size. PeerError
  /// where another rank is the cause, TimeoutError that names who did not come.
  explicit World(const RankSettings& settings, const WatchOptions& watch_options = {});
  /// leave(), if that was not called before; what it throws is printed. If an exception is on its way, the others are
  /// told that this rank has failed, and it returns within two seconds.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  /// Among the ranks of this machine.
  int local_rank() const;
  int local_size() const;
  const std::vector<Member>& members() const;

  /// A group of all ranks; collective. `name` is unique in the run, else Error. No `backend`: memory for ranks that are
  /// threads, else Gloo. A world of one rank sends nothing, so its groups use memory in any case. The world must
  /// outlive the group. Its connections, and those of its duplicates, last until leave(), whenever the group ends.
  std::shared_ptr<ProcessGroup> make_group(const std::string& name, std::optional<Backend> backend = {});
  Store& store();
  Watch& watch();
  /// Tells the others why this rank is about to end, "rank 1: <what>", and ends its collectives. For a program that has
  /// caught an exception and still has its groups: their end would be noticed first, as a lost connection.
  void fail(const std::string& what);

  /// Waits until all ranks have come here, so that none ends while another still needs it; rank 0, which may serve the
  /// store, goes last. Neither groups nor the store may be used afterwards. Throws PeerError if a rank failed or did
  /// not come within the timeout; on all ranks, within seconds, if another rank waits in a collective for this one.
  void leave();

 private:
  friend void run_as_threads(int, const std::function<void(World&)>&, Milliseconds);
  class Implementation;
  explicit World(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

/// Runs `rank_main` on `size` threads, each a rank of one world, and waits for all; a rank that returns leaves. Where
/// some throw, the others end with PeerError, and the first cause is thrown. Each thread computes with one thread.
void run_as_threads(int size, const std::function<void(World&)>& rank_main, Milliseconds timeout = Milliseconds(60000));

}  // namespace tandem::distributed
