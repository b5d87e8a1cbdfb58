#include "tandem/distributed/awake_clock.h"

#include <mutex>

namespace tandem::distributed {

AwakeClock::time_point AwakeClock::now() {
  static std::mutex mutex;
  static AwakeTime time(AwakeTime::Steady::now());
  const std::lock_guard lock(mutex);
  return time_point(time.look(AwakeTime::Steady::now()));
}

}  // namespace tandem::distributed
