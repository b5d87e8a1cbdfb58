// Watch: how the ranks of a run notice that one of them died, left or stalled, and agree on the first cause.
//
// Every rank beats: twice a second it writes to the store, over a connection of its own, what it is doing. Every rank
// looks at its neighbour's beats, and at one key that holds the first failure of the run. Whoever notices something
// writes it there if nobody has before; all others then end with that cause, not with its echoes ("connection reset").
// The launcher, which sees its children die, writes there too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tandem/distributed/failure.h"
#include "tandem/distributed/store.h"

namespace tandem::distributed {

struct WatchOptions {
  Milliseconds beat{500};    ///< between two beats
  Milliseconds stale{5000};  ///< a neighbour whose beat has not changed for so long has stalled
  /// Whether the store shall tell the others where this process ends without goodbye: for runs without a launcher,
  /// which sees more.
  bool leaves_will = false;
  std::string store_server;  ///< who serves the store, for messages: "rank 0", "launch"; empty: not known
};

class Watch {
 public:
  /// Begins to beat and to look. A run of one rank does neither.
  Watch(std::shared_ptr<Store> store, int rank, int size, const WatchOptions& options = {});
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// What this rank is about to do, told to the others with the next beat: operation `sequence` of `group`, in words.
  /// Cheap.
  void note(const std::string& group, std::int64_t sequence, const std::string& operation);
  /// Which update this rank is in.
  void note_step(std::int64_t step);

  /// Tells everybody. Returns the first failure of the run, which may be another one. For groups: a rank that lost a
  /// connection says so here before it closes its own.
  Failure report(const Failure& failure);
  /// The first failure, as far as it is known here.
  std::optional<Failure> failure() const;
  /// Called once with the first failure, from the watch's thread or that of report(); at once where there is one.
  /// Removed when the returned value is destroyed, which waits for a call that is running.
  [[nodiscard]] std::shared_ptr<void> on_failure(std::function<void(const Failure&)> callback);

  /// What another rank did at or after operation `sequence` of `group`, in its own words; waited for up to two beats.
  /// Empty where it does not say.
  std::string describe(int rank, const std::string& group, std::int64_t sequence);
  /// For a wait that passed its deadline: who has not come to operation `sequence` of `group`, and what those ranks are
  /// doing instead: "rank 2 never began it (last: all_reduce of bucket 0, step 12)". Empty where all have come.
  std::string describe_missing(const std::string& group, std::int64_t sequence);

  /// From now on this rank's silence means nothing. Waits until all ranks have said the same, up to `timeout`; throws
  /// PeerError naming who has not.
  void leave(Milliseconds timeout);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tandem::distributed
