// Where a step's time goes: each operator and phase, by itself, against what the machine would need at least.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/core/recorder.h"
#include "tools/bench/report.h"

namespace tandem::bench {

/// What the machine can do at best, in units a second (machine.h).
struct MachineLimits {
  double flops = 0, bytes = 0;
};

/// Of one step, summed over all calls.
struct OperatorRow {
  std::string name;
  bool is_operator = true;  ///< false: a phase, and its time is what no operator in it accounts for
  double calls = 0;
  double ms = 0;  ///< without what is nested in it
  double floor_ms = 0;
  double flops = 0, bytes = 0;
};

/// From the events of `steps` steps: operators, slowest first, then phases. A call's floor is the larger of FLOP over
/// peak and bytes over bandwidth. Each nanosecond counts once, for the innermost operator or phase on its thread, so
/// rows add up to the steps.
std::vector<OperatorRow> operator_rows(std::vector<core::Event> events, std::int64_t steps,
                                       const MachineLimits& limits);

void print_operators(const std::vector<OperatorRow>& rows, const MachineLimits& limits);
Json operators_as_json(const std::vector<OperatorRow>& rows, const MachineLimits& limits);

}  // namespace tandem::bench
