// Both sides take turns at each size, so that a change of the machine's mood hits both.
#include "tools/bench/allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/core/parallel.h"
#include "tandem/core/tensor.h"
#include "tandem/distributed/world.h"
#include "tools/bench/gloo_peer.h"
#include "tools/bench/machine.h"
#include "tools/bench/report.h"

namespace tandem::bench {

namespace {

using core::DType;
using core::Tensor;
using distributed::ProcessGroup;

struct Settings {
  std::vector<std::int64_t> sizes;  // bytes
  int iterations = 0;               // 0: by time
  std::string dtype = "float32";
  bool beside_gloo = false;
  std::string gloo_address = "127.0.0.1";
  std::string json;
};

struct Measured {
  std::int64_t bytes = 0;
  double ms = 0, best_ms = 0;
  std::optional<double> gloo_ms, gloo_best_ms;
};

constexpr std::int64_t kLargestBytes = std::int64_t{100} << 20;

// Powers of two, and the largest.
std::vector<std::int64_t> default_sizes() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 1024; bytes < kLargestBytes; bytes *= 2) sizes.push_back(bytes);
  sizes.push_back(kLargestBytes);
  return sizes;
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Mean of `calls` in a row, after all ranks have come.
double time_calls(ProcessGroup& group, int calls, const std::function<void()>& call) {
  group.barrier()->wait();
  const double begin = now_ms();
  for (int i = 0; i < calls; ++i) call();
  return (now_ms() - begin) / calls;
}

// Every rank counts up from its own number, so that a chunk in the wrong place shows.
void check_sum(ProcessGroup& group, const Tensor& tensor, const char* whose, const std::function<void()>& call) {
  const std::int64_t period = 251;
  const auto fill_in = [&](double scale, double offset) {
    std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = scale * static_cast<double>(static_cast<std::int64_t>(i) % period) + offset;
    return Tensor::from(values).to(tensor.dtype());
  };
  Tensor target = tensor;
  target.copy_from(fill_in(1, group.rank()));
  call();
  const int size = group.size();
  const Tensor expected = fill_in(size, size * (size - 1) / 2.0);
  if (tensor.to_vector<double>() != expected.to_vector<double>())
    core::fail("allreduce: {} has wrong sums at {} bytes on rank {}", whose, tensor.bytes(), group.rank());
  target.fill(0);
}

// About a second and a half a size; rank 0 decides.
int agree_on_iterations(ProcessGroup& group, double iteration_ms) {
  const double count = std::clamp(1500 / std::max(iteration_ms, 0.001), 5.0, 41.0);
  Tensor agreed = Tensor::scalar(std::floor(count), DType::int64);
  group.broadcast(agreed, 0)->wait();
  return static_cast<int>(agreed.item());
}

Measured measure(ProcessGroup& group, GlooPeer* gloo, std::int64_t bytes, DType dtype, int iterations) {
  const auto numel = bytes / static_cast<std::int64_t>(core::item_size(dtype));
  Tensor tensor = Tensor::zeros({numel}, {.dtype = dtype});
  const auto own = [&] { group.all_reduce(tensor)->wait(); };
  const auto beside = [&] {
    const auto count = static_cast<std::size_t>(numel);
    if (dtype == DType::float32) gloo->all_reduce(tensor.mutable_data<float>(), count);
    if (dtype == DType::float64) gloo->all_reduce(tensor.mutable_data<double>(), count);
  };
  check_sum(group, tensor, "Tandem", own);
  if (gloo) check_sum(group, tensor, "Gloo", beside);
  // Short ones in a row, so that how ranks leave a barrier does not count.
  const int calls = bytes <= 256 * 1024 ? 20 : bytes <= 4 << 20 ? 4 : 1;
  const double first_ms = calls * (time_calls(group, calls, own) + (gloo ? time_calls(group, calls, beside) : 0));
  if (iterations == 0) iterations = agree_on_iterations(group, first_ms);
  std::vector<double> own_times, gloo_times;
  for (int i = 0; i < iterations; ++i) {
    own_times.push_back(time_calls(group, calls, own));
    if (gloo) gloo_times.push_back(time_calls(group, calls, beside));
  }
  const auto best = [](const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); };
  Measured measured{
      .bytes = bytes, .ms = median(own_times), .best_ms = best(own_times), .gloo_ms = {}, .gloo_best_ms = {}};
  if (gloo) measured.gloo_ms = median(gloo_times), measured.gloo_best_ms = best(gloo_times);
  return measured;
}

struct Line {
  double latency_ms = 0, ms_per_byte = 0;
};

// Least squares of relative errors: each point is weighted by 1 / time^2, so that short messages count too.
Line fit(const std::vector<Measured>& points) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const Measured& point : points) {
    const double weight = 1 / (point.ms * point.ms), x = static_cast<double>(point.bytes);
    w += weight, wx += weight * x, wy += weight * point.ms, wxx += weight * x * x, wxy += weight * x * point.ms;
  }
  const double determinant = w * wxx - wx * wx;
  if (points.size() < 2 || determinant == 0) return {};
  return {(wxx * wy - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant};
}

void report(const Settings& settings, const std::vector<Measured>& all, int size) {
  const double share = 2.0 * (size - 1) / size;
  const auto bus = [&](double bytes, double ms) { return bytes / ms / 1e6 * share; };
  Json json{{"machine", describe_machine()}, {"world_size", size}, {"dtype", settings.dtype}, {"sizes", Json::array()}};
  std::vector<Row> rows;
  for (const Measured& one : all) {
    const auto bytes = static_cast<double>(one.bytes);
    Row row{std::to_string(one.bytes), fmt::format("{:.4f}", one.ms), fmt::format("{:.4f}", one.best_ms),
            fmt::format("{:.3f}", bus(bytes, one.ms))};
    Json entry{{"bytes", one.bytes}, {"median_ms", one.ms}, {"best_ms", one.best_ms}, {"bus_gb_s", bus(bytes, one.ms)}};
    if (one.gloo_ms) {
      row.push_back(fmt::format("{:.4f}", *one.gloo_ms));
      row.push_back(fmt::format("{:.4f}", *one.gloo_best_ms));
      row.push_back(fmt::format("{:.2f}", *one.gloo_ms / one.ms));
      entry["gloo_median_ms"] = *one.gloo_ms;
      entry["gloo_best_ms"] = *one.gloo_best_ms;
      entry["speed_beside_gloo"] = *one.gloo_ms / one.ms;
    }
    rows.push_back(row);
    json["sizes"].push_back(entry);
  }
  Row header{"bytes", "median ms", "best ms", "bus GB/s"};
  if (settings.beside_gloo) header.insert(header.end(), {"Gloo ms", "best ms", "Gloo / ours"});
  print_table(header, rows);
  const Line line = fit(all);
  if (line.ms_per_byte > 0) {
    const double bandwidth = share / line.ms_per_byte / 1e6;
    fmt::print("\ntime = {:.1f} us + bytes x {:.3f} ns, bus bandwidth {:.3f} GB/s (least squares of relative errors)\n",
               line.latency_ms * 1e3, line.ms_per_byte * 1e6, bandwidth);
    json["latency_us"] = line.latency_ms * 1e3;
    json["ns_per_byte"] = line.ms_per_byte * 1e6;
    json["bus_gb_s"] = bandwidth;
    json["fit"] = "least squares of relative errors";
  }
  write_json(settings.json, json);
}

DType dtype_named(const std::string& wanted) {
  for (const DType dtype :
       {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int64, DType::int32})
    if (core::name(dtype) == wanted) return dtype;
  core::fail("allreduce: no dtype {}", wanted);
}

void run_allreduce(const Settings& settings) {
  core::set_num_threads(1);
  const DType dtype = dtype_named(settings.dtype);
  if (settings.beside_gloo && dtype != DType::float32 && dtype != DType::float64)
    core::fail("allreduce: --beside-gloo compares float32 and float64, got {}", settings.dtype);
  distributed::World world(distributed::resolve_rank({}));
  const auto group = world.make_group("bench");
  std::optional<GlooPeer> gloo;
  if (settings.beside_gloo && world.size() > 1) gloo.emplace(world, settings.gloo_address);
  if (world.rank() == 0)
    print_settings({{"ranks", std::to_string(world.size())},
                    {"dtype", settings.dtype},
                    {"time", "median over iterations of the mean of calls in a row, each waited for; rank 0's clock"},
                    {"bus bandwidth", "bytes / time x 2 (W - 1) / W"}});
  std::vector<Measured> all;
  for (const std::int64_t bytes : settings.sizes.empty() ? default_sizes() : settings.sizes) {
    all.push_back(measure(*group, gloo ? &*gloo : nullptr, bytes, dtype, settings.iterations));
  }
  if (world.rank() == 0) report(settings, all, world.size());
  world.leave();
}

}  // namespace

void add_allreduce(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* command = app.add_subcommand(
      "allreduce", "Time of all-reduce by size; one rank, to be started by launch: launch -n 2 -- bench allreduce");
  command
      ->add_option("--sizes", settings->sizes, "Bytes, such as 1K,64K,25M (default: powers of two from 1K, and 100M)")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{8}, std::int64_t{1} << 36));
  command->add_option("--iterations", settings->iterations, "At each size (default: as many as fit in 1.5 s)")
      ->check(CLI::Range(1, 100000));
  command->add_option("--dtype", settings->dtype)
      ->check(CLI::IsMember({"float32", "float64", "bfloat16", "float16", "int64", "int32"}))
      ->capture_default_str();
  command->add_flag("--beside-gloo", settings->beside_gloo, "Take turns with gloo::allreduce");
  command->add_option("--gloo-address", settings->gloo_address, "This machine's, for gloo::allreduce")
      ->capture_default_str();
  command->add_option("--json", settings->json, "Rank 0 writes the results to this file");
  command->callback([settings] { run_allreduce(*settings); });
}

}  // namespace tandem::bench
