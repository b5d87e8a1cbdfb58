// The event recorder: begin and end of named work, for metrics, traces and the timeline.
//
// Off by default, and then a scope costs one branch on a flag. Each thread writes to a buffer of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::core {

struct Event {
  const char* name = "";      ///< what: "conv2d", "backward"; a literal, it is not copied
  const char* category = "";  ///< "op", "phase", "comm"
  std::int64_t begin_ns = 0;  ///< steady clock
  std::int64_t end_ns = 0;
  int thread = 0;  ///< numbered by first event
};

namespace recorder {

inline std::atomic<bool> enabled_flag{false};

inline bool enabled() { return enabled_flag.load(std::memory_order_relaxed); }
void enable(bool on);
/// Nanoseconds of the steady clock that events use.
std::int64_t now_ns();
void add(const char* name, const char* category, std::int64_t begin_ns, std::int64_t end_ns);
/// Takes out all that was recorded, of all threads, ordered by begin.
std::vector<Event> drain();

}  // namespace recorder

/// Records from construction to destruction: `RecordScope scope("conv2d", "op");`
class RecordScope {
 public:
  explicit RecordScope(const char* name, const char* category = "op") : name_(name), category_(category) {
    if (recorder::enabled()) begin_ns_ = recorder::now_ns();
  }
  ~RecordScope() {
    if (begin_ns_ >= 0) recorder::add(name_, category_, begin_ns_, recorder::now_ns());
  }
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  const char* name_;
  const char* category_;
  std::int64_t begin_ns_ = -1;
};

}  // namespace tandem::core
