// The last resort of a rank whose run has failed elsewhere: normally it notices at its next wait on another rank, but
// it may be computing for long, or be stuck.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tandem/distributed/watch.h"

namespace tandem::train {

class ForcedEnd {
 public:
  // Another rank's failure reaches this one at its next wait; a rank that does not wait is ended.
  /// From the first failure of the run on, this rank has so long to end by itself; then the process is ended, with exit
  /// code 3, and the cause as its last line.
  explicit ForcedEnd(distributed::Watch& watch, std::chrono::milliseconds grace = std::chrono::milliseconds(3000));
  ~ForcedEnd();
  ForcedEnd(const ForcedEnd&) = delete;
  ForcedEnd& operator=(const ForcedEnd&) = delete;

 private:
  void wait(const std::stop_token& stop);

  const std::chrono::milliseconds grace_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string cause_;  // empty: nothing has failed
  std::jthread thread_;
  std::shared_ptr<void> registration_;  // the last member: nobody calls once the others go
};

}  // namespace tandem::train
