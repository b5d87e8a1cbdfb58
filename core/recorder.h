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
  const char* category = "";  ///< "op", "phase", "comm", "recompute"
  std::int64_t begin_ns = 0;  ///< steady clock
  std::int64_t end_ns = 0;
  int thread = 0;    ///< numbered by first event
  double flops = 0;  ///< the work's cost where it is known, else 0; what is nested in it not included
  double bytes = 0;
};

/// The least that a piece of work must do: where the machine's peak and bandwidth are known, a floor of its time.
struct Cost {
  double flops = 0;  ///< of products of matrices; a multiply-add counts twice
  double bytes = 0;  ///< every operand read once, every result written once
};

namespace recorder {

inline std::atomic<bool> enabled_flag{false};

inline bool enabled() { return enabled_flag.load(std::memory_order_relaxed); }
void enable(bool on);
/// Nanoseconds of the steady clock that events use.
std::int64_t now_ns();
void add(const char* name, const char* category, std::int64_t begin_ns, std::int64_t end_ns, Cost cost = {});
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
    if (is_recording()) recorder::add(name_, category_, begin_ns_, recorder::now_ns(), cost_);
  }
  bool is_recording() const { return begin_ns_ >= 0; }
  /// Adds to the event's cost. To be asked first is is_recording(), where the cost takes time to count.
  void add(Cost cost) {
    cost_.flops += cost.flops;
    cost_.bytes += cost.bytes;
  }

  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  const char* name_;
  const char* category_;
  std::int64_t begin_ns_ = -1;
  Cost cost_;
};

}  // namespace tandem::core
