// Neighbour: the part of a watch (watch.h) that notices that another rank has fallen silent.
//
// Each rank looks at the next one that has come and has not left, so that all are looked at, each by one.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tandem/distributed/failure.h"
#include "tandem/distributed/store.h"

namespace tandem::distributed {

class Neighbour {
 public:
  /// `beat` is the time between two looks as between two beats, `stale` as in WatchOptions.
  Neighbour(int rank, int size, Milliseconds beat, Milliseconds stale);

  /// What is wrong with the neighbour, none where nothing is. Does not wait. Throws what the store throws.
  std::optional<Failure> look(Store& store);

 private:
  int rank_, size_;
  Milliseconds beat_, stale_;
  int neighbour_ = -1;
  std::string last_beat_;
  std::chrono::steady_clock::time_point looked_, changed_;  // changed_: when last_beat_ did
  std::vector<bool> has_left_;
};

}  // namespace tandem::distributed
