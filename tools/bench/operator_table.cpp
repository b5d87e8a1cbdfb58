#include "tools/bench/operator_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

namespace tandem::bench {
namespace {

bool is_operator(const core::Event& event) { return std::string_view(event.category) == "op"; }
bool is_phase(const core::Event& event) { return std::string_view(event.category) == "phase"; }

double ms(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }

// Each event's time without what is nested directly in it. Outer events come first.
std::vector<std::int64_t> own_times(const std::vector<core::Event>& events) {
  std::vector<std::int64_t> own;
  std::map<int, std::vector<std::size_t>> open;  // by thread, outermost first
  for (std::size_t i = 0; i < events.size(); ++i) {
    const core::Event& event = events[i];
    const std::int64_t duration = event.end_ns - event.begin_ns;
    own.push_back(duration);
    std::vector<std::size_t>& outer = open[event.thread];
    while (!outer.empty() && events[outer.back()].end_ns <= event.begin_ns) outer.pop_back();
    if (!outer.empty()) own[outer.back()] -= duration;
    outer.push_back(i);
  }
  return own;
}

double floor_ms(double flops, double bytes, const MachineLimits& limits) {
  return 1e3 * std::max(flops / limits.flops, bytes / limits.bytes);
}

double sum(const std::vector<OperatorRow>& rows, double OperatorRow::*member) {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [=](double sum, const OperatorRow& row) { return sum + row.*member; });
}

std::string title(const OperatorRow& row) { return row.is_operator ? row.name : row.name + ", no operator"; }

}  // namespace

std::vector<OperatorRow> operator_rows(std::vector<core::Event> events, std::int64_t steps,
                                       const MachineLimits& limits) {
  std::erase_if(events, [](const core::Event& event) { return !is_operator(event) && !is_phase(event); });
  std::stable_sort(events.begin(), events.end(), [](const core::Event& a, const core::Event& b) {
    return std::pair(a.begin_ns, -a.end_ns) < std::pair(b.begin_ns, -b.end_ns);
  });
  const std::vector<std::int64_t> own = own_times(events);
  std::map<std::pair<bool, std::string>, OperatorRow> by_name;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const core::Event& event = events[i];
    OperatorRow& row = by_name[{is_phase(event), event.name}];
    row.name = event.name;
    row.is_operator = is_operator(event);
    const double share = 1.0 / static_cast<double>(steps);
    row.calls += share;
    row.ms += share * ms(own[i]);
    row.floor_ms += share * floor_ms(event.flops, event.bytes, limits);
    row.flops += share * event.flops;
    row.bytes += share * event.bytes;
  }
  std::vector<OperatorRow> rows;
  for (auto& [key, row] : by_name) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const OperatorRow& a, const OperatorRow& b) {
    return std::pair(!a.is_operator, -a.ms) < std::pair(!b.is_operator, -b.ms);
  });
  return rows;
}

void print_operators(const std::vector<OperatorRow>& rows, const MachineLimits& limits) {
  const double step_ms = sum(rows, &OperatorRow::ms);
  const auto cells = [&](const std::string& name, const std::string& calls, double time, double floor) {
    return Row{name,
               calls,
               fmt::format("{:.3f}", time),
               fmt::format("{:.1f} %", 100 * time / step_ms),
               fmt::format("{:.3f}", floor),
               floor > 0 ? fmt::format("{:.0f} %", 100 * floor / time) : "-"};
  };
  std::vector<Row> table;
  for (const OperatorRow& row : rows)
    table.push_back(cells(title(row), fmt::format("{:.0f}", row.calls), row.ms, row.floor_ms));
  table.push_back(cells("step", "", step_ms, sum(rows, &OperatorRow::floor_ms)));
  fmt::print(
      "\nThe same step, recorded. Floor: of each call the larger of FLOP over {:.1f} GFLOP/s and bytes over {:.1f} "
      "GB/s, both measured;\ncaches may beat the second.\n\n",
      limits.flops / 1e9, limits.bytes / 1e9);
  print_table({"operator", "calls", "ms", "share", "floor ms", "of floor"}, table);
}

Json operators_as_json(const std::vector<OperatorRow>& rows, const MachineLimits& limits) {
  const double step_ms = sum(rows, &OperatorRow::ms), floor = sum(rows, &OperatorRow::floor_ms);
  Json json{{"peak_gflops", limits.flops / 1e9},
            {"bandwidth_gb_s", limits.bytes / 1e9},
            {"step_ms", step_ms},
            {"floor_ms", floor},
            {"share_of_floor", floor / step_ms},
            {"rows", Json::array()}};
  for (const OperatorRow& row : rows)
    json["rows"].push_back({{"name", row.name},
                            {"kind", row.is_operator ? "operator" : "phase"},
                            {"calls", row.calls},
                            {"ms", row.ms},
                            {"share", row.ms / step_ms},
                            {"floor_ms", row.floor_ms},
                            {"share_of_floor", row.floor_ms / row.ms},
                            {"flops", row.flops},
                            {"bytes", row.bytes}});
  return json;
}

}  // namespace tandem::bench
