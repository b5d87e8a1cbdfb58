// Failure: what went wrong first in a run, and the key of the store under which ranks and launcher agree on it.
#pragma once

#include <string>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

/// What went wrong first.
struct Failure {
  int rank = -1;      ///< whose doing it was; -1: nobody's, or not known
  int reporter = -1;  ///< who noticed; -1: the launcher
  std::string cause;  ///< a sentence that names the rank: "rank 2 was killed by signal 9 (Killed)"

  /// The cause becomes one line of bounded length.
  std::string encode() const;
  /// Of any bytes: what is no failure becomes one that says so, since whoever wrote it meant that the run shall end.
  static Failure decode(const std::string& text);
  bool operator==(const Failure&) const = default;
};

/// The key of the first failure, in the store that ranks and launcher share.
inline constexpr const char* kFailureKey = "failure";
/// The key that a rank sets when it leaves in good order.
std::string goodbye_key(int rank);
/// Writes `failure` unless there is one; returns the first. Throws PeerError where the store is gone.
Failure report_failure(Store& store, const Failure& failure);

}  // namespace tandem::distributed
