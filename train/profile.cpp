#include "tandem/train/profile.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tandem::train {
namespace {

using distributed::BucketRecord;
using distributed::IterationRecord;
using distributed::Reducer;
using nlohmann::ordered_json;

// Nanoseconds to milliseconds, to the microsecond.
ordered_json ms(std::int64_t ns) { return std::round(static_cast<double>(ns) / 1e3) / 1e3; }
ordered_json ms(const distributed::Interval& interval) { return ms(interval.end_ns - interval.begin_ns); }

ordered_json plan(const Reducer& reducer, int rank, int world_size) {
  ordered_json parameters = ordered_json::array();
  for (const auto& [name, variable] : reducer.parameters())
    parameters.push_back(
        {{"name", name}, {"bytes", variable.data().bytes()}, {"dtype", core::name(variable.data().dtype())}});
  return {{"rank", rank},
          {"world_size", world_size},
          {"parameters", parameters},
          {"buckets", reducer.last_iteration().plan->members()}};
}

ordered_json times(const IterationRecord& record) {
  const std::int64_t begin = record.backward.begin_ns;
  const auto since = [&](std::int64_t ns) { return ns == 0 ? ordered_json() : ms(ns - begin); };
  ordered_json ready = ordered_json::array(), buckets = ordered_json::array();
  for (const std::int64_t ns : record.ready_ns) ready.push_back(since(ns));
  for (const BucketRecord& bucket : record.buckets)
    buckets.push_back({{"bytes", bucket.bytes},
                       {"ready_ms", since(bucket.ready_ns)},
                       {"launched_ms", since(bucket.launched_ns)},
                       {"begin_ms", since(bucket.on_the_wire.begin_ns)},
                       {"end_ms", since(bucket.on_the_wire.end_ns)}});
  return {{"ready_ms", ready}, {"buckets", buckets}};
}

}  // namespace

Profile::Profile(const std::string& path, int rank, int world_size, StopSignal& stop)
    : rank_(rank), world_size_(world_size), lines_(path, OutputLines::Begin::empty, stop) {}

void Profile::update(const UpdateReport& report, const Reducer& reducer) {
  if (!report.has_items) return;
  const IterationRecord& record = reducer.last_iteration();
  ordered_json line{{"step", report.step},
                    {"forward_ms", ms(record.forward)},
                    {"backward_ms", ms(record.backward)},
                    {"optimizer_ms", std::round(report.optimizer_ms * 1e3) / 1e3},
                    {"exposed_ms", std::round(record.exposed_ms() * 1e3) / 1e3},
                    {"local_passes", record.local.count},
                    {"local_forward_ms", ms(record.local.forward_ns)},
                    {"local_backward_ms", ms(record.local.backward_ns)},
                    {"bytes_sent", record.bytes_sent},
                    {"bytes_copied", record.bytes_copied},
                    {"bytes_reordered", record.bytes_reordered}};
  line.update(times(record));
  if (plan_ != record.plan) lines_.add(plan(reducer, rank_, world_size_).dump());
  plan_ = record.plan;
  lines_.add(line.dump());
}

}  // namespace tandem::train
