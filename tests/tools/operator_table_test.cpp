// How events become the table of `bench step --operators`.
#include "tools/bench/operator_table.h"

#include <gtest/gtest.h>

namespace tandem::bench {
namespace {

// A GFLOP/s and a GB/s: a FLOP or a byte takes a nanosecond.
constexpr MachineLimits kLimits{.flops = 1e9, .bytes = 1e9};
constexpr std::int64_t kMs = 1'000'000;

core::Event event(const char* name, const char* category, std::int64_t begin_ms, std::int64_t end_ms, int thread = 0,
                  core::Cost cost = {}) {
  return {.name = name,
          .category = category,
          .begin_ns = begin_ms * kMs,
          .end_ns = end_ms * kMs,
          .thread = thread,
          .flops = cost.flops,
          .bytes = cost.bytes};
}

void expect_row(const OperatorRow& row, const std::string& name, bool is_operator, double calls, double ms) {
  EXPECT_EQ(row.name, name);
  EXPECT_EQ(row.is_operator, is_operator) << name;
  EXPECT_DOUBLE_EQ(row.calls, calls) << name;
  EXPECT_DOUBLE_EQ(row.ms, ms) << name;
}

TEST(OperatorTableTest, NestedTimeCountsOnceAndAllOfItCounts) {
  // Inner events end, and are written, before outer ones, also where both begin in the same nanosecond.
  const auto rows = operator_rows(
      {event("copy", "op", 2, 4), event("embedding", "op", 2, 9), event("copy", "op", 10, 11),
       event("forward", "phase", 1, 12), event("linear", "op", 14, 18), event("linear_node", "backward", 13, 19),
       event("backward", "phase", 12, 20), event("step", "phase", 0, 22)},
      1, kLimits);
  ASSERT_EQ(rows.size(), 6u);
  expect_row(rows[0], "embedding", true, 1, 5);
  expect_row(rows[1], "linear", true, 1, 4);
  expect_row(rows[2], "copy", true, 2, 3);
  expect_row(rows[3], "backward", false, 1, 4);  // the node's own time too: it is the tape
  expect_row(rows[4], "forward", false, 1, 3);
  expect_row(rows[5], "step", false, 1, 3);
}

TEST(OperatorTableTest, ThreadsNestEachByItself) {
  const auto rows = operator_rows({event("linear", "op", 0, 10, 0), event("copy", "op", 2, 12, 1)}, 1, kLimits);
  ASSERT_EQ(rows.size(), 2u);
  expect_row(rows[0], "copy", true, 1, 10);
  expect_row(rows[1], "linear", true, 1, 10);
}

TEST(OperatorTableTest, FloorsAreOfEachCallAndFiguresOfEachStep) {
  const auto rows = operator_rows({event("linear", "op", 0, 4, 0, {.flops = 3e6, .bytes = 1e6}),
                                   event("linear", "op", 4, 8, 0, {.flops = 1e6, .bytes = 2e6}),
                                   event("adam", "phase", 8, 10, 0, {.flops = 0, .bytes = 1e6})},
                                  2, kLimits);
  ASSERT_EQ(rows.size(), 2u);
  expect_row(rows[0], "linear", true, 1, 4);
  EXPECT_DOUBLE_EQ(rows[0].floor_ms, 2.5);
  EXPECT_DOUBLE_EQ(rows[0].flops, 2e6);
  EXPECT_DOUBLE_EQ(rows[0].bytes, 1.5e6);
  expect_row(rows[1], "adam", false, 0.5, 1);
  EXPECT_DOUBLE_EQ(rows[1].floor_ms, 0.5);

  const Json json = operators_as_json(rows, kLimits);
  EXPECT_DOUBLE_EQ(json.at("step_ms").get<double>(), 5);
  EXPECT_DOUBLE_EQ(json.at("floor_ms").get<double>(), 3);
  EXPECT_DOUBLE_EQ(json.at("share_of_floor").get<double>(), 0.6);
  EXPECT_EQ(json.at("rows").at(0).at("kind"), "operator");
  EXPECT_DOUBLE_EQ(json.at("rows").at(0).at("share").get<double>(), 0.8);
  EXPECT_EQ(json.at("rows").at(1).at("kind"), "phase");
}

}  // namespace
}  // namespace tandem::bench
