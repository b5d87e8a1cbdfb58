#include "tandem/distributed/statistics.h"

#include <algorithm>

namespace tandem::distributed {
namespace {

/// The length of the union of the parts of `intervals` that lie within `window`.
double covered_ms(std::vector<Interval> intervals, const Interval& window) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
  double ms = 0;
  std::int64_t reached = window.begin_ns;
  for (const Interval& interval : intervals) {
    const Interval fresh{std::max(interval.begin_ns, reached), std::min(interval.end_ns, window.end_ns)};
    if (fresh.end_ns <= fresh.begin_ns) continue;
    ms += fresh.ms();
    reached = fresh.end_ns;
  }
  return ms;
}

std::vector<Interval> on_the_wire(const std::vector<BucketRecord>& buckets) {
  std::vector<Interval> intervals;
  for (const BucketRecord& bucket : buckets)
    if (bucket.on_the_wire.end_ns > 0) intervals.push_back(bucket.on_the_wire);
  return intervals;
}

}  // namespace

double IterationRecord::communication_ms() const {
  return covered_ms(on_the_wire(buckets), {backward.begin_ns, end_ns});
}

double IterationRecord::first_launch_to_last_completion_ms() const {
  if (on_the_wire(buckets).empty()) return 0;
  Interval whole{buckets.front().launched_ns, 0};
  for (const BucketRecord& bucket : buckets) {
    whole.begin_ns = std::min(whole.begin_ns, bucket.launched_ns);
    whole.end_ns = std::max(whole.end_ns, bucket.on_the_wire.end_ns);
  }
  return whole.ms();
}

double IterationRecord::overlapped_ms() const { return covered_ms(on_the_wire(buckets), backward); }

double IterationRecord::exposed_ms() const {
  return on_the_wire(buckets).empty() ? 0 : Interval{backward.end_ns, end_ns}.ms();
}

}  // namespace tandem::distributed
