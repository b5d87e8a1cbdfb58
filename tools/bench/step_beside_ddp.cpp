#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tandem/core/error.h"
#include "tools/bench/step.h"

namespace tandem::bench {
namespace {

// The two sides take turns in blocks, so that a change of the machine's mood hits both; who begins changes too.
void take_turns(std::int64_t steps, TrainingStep& bare, StepTimes& of_bare, TrainingStep& wrapped,
                StepTimes& of_wrapped) {
  const std::int64_t block = std::max<std::int64_t>(1, steps / 20);
  bool bare_first = true;
  for (std::int64_t left = steps; left > 0; left -= block, bare_first = !bare_first) {
    const std::int64_t count = std::min(block, left);
    if (bare_first) bare.run(count, &of_bare);
    wrapped.run(count, &of_wrapped);
    if (!bare_first) bare.run(count, &of_bare);
  }
}

void report_beside_ddp(const StepSettings& settings, int ranks, const StepTimes& of_bare, const StepTimes& of_wrapped) {
  Json json = describe_step(settings);
  json["world_size"] = ranks;
  std::vector<Row> rows;
  const std::tuple<const char*, const std::vector<double>*, const std::vector<double>*> parts[] = {
      {"step", &of_bare.total, &of_wrapped.total},
      {"forward", &of_bare.forward, &of_wrapped.forward},
      {"backward", &of_bare.backward, &of_wrapped.backward},
      {"optimizer", &of_bare.optimizer, &of_wrapped.optimizer}};
  for (const auto& [name, without, with] : parts) {
    const double bare_ms = median(*without), ddp_ms = median(*with), cost = (ddp_ms / bare_ms - 1) * 100;
    rows.push_back({name, fmt::format("{:.4f}", bare_ms), fmt::format("{:.4f}", ddp_ms), fmt::format("{:+.2f}", cost)});
    json[std::string("bare_") + name + "_ms"] = bare_ms;
    json[std::string("ddp_") + name + "_ms"] = ddp_ms;
    json[std::string("ddp_") + name + "_cost_percent"] = cost;
  }
  print_table({"part", "bare median ms", "under DDP", "cost %"}, rows);
  write_json(settings.json, json);
}

}  // namespace

void run_beside_ddp(const StepSettings& settings) {
  distributed::World world(distributed::resolve_rank({}));
  const bool is_first = world.rank() == 0;
  TrainingStep bare(settings.workload, settings.optimizer), wrapped(settings.workload, settings.optimizer);
  if (is_first) print_start(settings, bare.workload(), world.size());
  wrapped.wrap(world);
  bare.run(settings.warmup, nullptr);
  wrapped.run(settings.warmup, nullptr);
  StepTimes of_bare, of_wrapped;
  take_turns(settings.steps, bare, of_bare, wrapped, of_wrapped);
  // All ranks compute on the same batch, and the mean of several equal gradients may be rounded.
  const double difference = std::abs(bare.last_loss() - wrapped.last_loss());
  if (difference > (world.size() == 1 ? 0 : 1e-2 * std::abs(bare.last_loss())))
    core::fail("step: a loss of {} bare, but {} under DDP", bare.last_loss(), wrapped.last_loss());
  world.leave();
  if (is_first) report_beside_ddp(settings, world.size(), of_bare, of_wrapped);
}

}  // namespace tandem::bench
