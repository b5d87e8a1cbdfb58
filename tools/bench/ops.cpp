#include "tools/bench/ops.h"

#include <fmt/core.h>
#include <chrono>

#include <CLI/CLI.hpp>
#include <memory>

#include "tandem/core/error.h"
#include "tandem/core/parallel.h"
#include "tandem/core/thread_count.h"
#include "tools/bench/alone.h"
#include "tools/bench/machine.h"
#include "tools/bench/operator_jobs.h"
#include "tools/bench/report.h"

namespace tandem::bench {
namespace {

struct OpsSettings {
  std::int64_t batch_size = 64;
  int threads = core::threads_of_rank(std::nullopt, 1);
  double seconds = 0.3;  // for each operator
  std::string filter, json;
};

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Median over as many calls as the time allows, five at least, after two that are not counted.
double median_ms(const OperatorJob& job, double seconds) {
  job.run();
  job.run();
  std::vector<double> times;
  const double start = now_ms();
  while (times.size() < 5 || (now_ms() - start < seconds * 1e3 && times.size() < 10000)) {
    const double begin = now_ms();
    job.run();
    times.push_back(now_ms() - begin);
  }
  return median(times);
}

void run_ops(const OpsSettings& settings) {
  check_is_alone("ops", "leave the launcher out");
  core::set_num_threads(settings.threads);
  const double peak = measure_peak_flops(), bandwidth = measure_bandwidth();
  print_settings({{"batch size", std::to_string(settings.batch_size)},
                  {"threads", std::to_string(settings.threads)},
                  {"peak", fmt::format("{:.1f} GFLOP/s float32, measured", peak / 1e9)},
                  {"bandwidth", fmt::format("{:.1f} GB/s, measured (triad)", bandwidth / 1e9)},
                  {"floor", "the larger of FLOP / peak and bytes / bandwidth; caches may beat the second"}});
  Json json{{"machine", describe_machine()}, {"batch_size", settings.batch_size}, {"threads", settings.threads},
            {"peak_gflops", peak / 1e9},     {"bandwidth_gb_s", bandwidth / 1e9}, {"operators", Json::array()}};
  std::vector<Row> rows;
  for (const OperatorJob& job : operator_jobs(settings.batch_size)) {
    if (job.name.find(settings.filter) == std::string::npos) continue;
    const double ms = median_ms(job, settings.seconds);
    const double floor_ms = 1e3 * std::max(job.flops / peak, job.bytes / bandwidth);
    rows.push_back({job.name, fmt::format("{:.4f}", ms), fmt::format("{:.4f}", floor_ms),
                    fmt::format("{:.0f} %", 100 * floor_ms / ms), fmt::format("{:.1f}", job.flops / ms / 1e6),
                    fmt::format("{:.1f}", job.bytes / ms / 1e6)});
    json["operators"].push_back({{"name", job.name},
                                 {"median_ms", ms},
                                 {"floor_ms", floor_ms},
                                 {"share_of_floor", floor_ms / ms},
                                 {"flops", job.flops},
                                 {"bytes", job.bytes}});
  }
  if (rows.empty()) core::fail("ops: no operator's name has '{}' in it", settings.filter);
  print_table({"operator", "median ms", "floor ms", "of floor", "GFLOP/s", "GB/s"}, rows);
  write_json(settings.json, json);
}

}  // namespace

void add_ops(CLI::App& app) {
  auto settings = std::make_shared<OpsSettings>();
  CLI::App* command = app.add_subcommand(
      "ops", "Time of each operator, forward and backward, at the shapes of convnet and of a layer of BERT base");
  command->add_option("--batch-size", settings->batch_size)->check(CLI::Range(1, 1 << 16))->capture_default_str();
  command->add_option("--threads", settings->threads)->check(CLI::Range(1, 1024))->capture_default_str();
  command->add_option("--seconds", settings->seconds, "To spend on each")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  command->add_option("--filter", settings->filter, "Only operators with this in their name");
  command->add_option("--json", settings->json, "Write the results to this file");
  command->callback([settings] { run_ops(*settings); });
}

}  // namespace tandem::bench
