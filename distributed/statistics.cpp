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
  for (const BucketRecord& bucket : buckets) intervals.push_back(bucket.on_the_wire);
  return intervals;
}

}  // namespace

double IterationRecord::communication_ms() const {
  return covered_ms(on_the_wire(buckets), {backward.begin_ns, end_ns});
}

double IterationRecord::overlapped_ms() const { return covered_ms(on_the_wire(buckets), backward); }

}  // namespace tandem::distributed
