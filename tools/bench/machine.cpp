#include "tools/bench/machine.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "tandem/core/ops/linear.h"
#include "tandem/core/parallel.h"
#include "tandem/core/ops/random_fill.h"

namespace tandem::bench {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

using Lanes = float __attribute__((vector_size(64)));
constexpr int kAccumulators = 12;  // more than latency x throughput of two units, fewer than the registers there are
constexpr std::int64_t kRounds = 2'000'000;

// Independent chains a = a x + y; returned so that they are computed, and opaque so that they are computed at every
// call.
[[gnu::noipa]] float multiply_add_chains() {
  Lanes chains[kAccumulators], x, y;
  for (int i = 0; i < 16; ++i) {
    x[i] = 0.999f;
    y[i] = 0.001f * static_cast<float>(i);
  }
  for (Lanes& chain : chains) chain = y;
  for (std::int64_t round = 0; round < kRounds; ++round)
    for (Lanes& chain : chains) chain = chain * x + y;
  float sum = 0;
  for (const Lanes& chain : chains) sum += chain[3];
  return sum;
}

template <class Work>
double best_seconds(int tries, Work&& work) {
  double best = 1e30;
  for (int i = 0; i < tries; ++i) {
    const double begin = seconds_now();
    work();
    best = std::min(best, seconds_now() - begin);
  }
  return best;
}

}  // namespace

Json describe_machine() {
  return {{"processor", processor_name()},
          {"threads", core::num_threads()},
          {"tandem", TANDEM_VERSION},
          {"onednn", TANDEM_DNNL_VERSION},
          {"compiler", __VERSION__}};
}

double measure_peak_flops() {
  const std::int64_t threads = core::num_threads();
  std::vector<float> sums(static_cast<std::size_t>(threads) * 16);  // a cache line each
  const double seconds = best_seconds(20, [&] {
    core::parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sums[static_cast<std::size_t>(i) * 16] = multiply_add_chains();
    });
  });
  volatile float keep = sums[0];
  (void)keep;
  return static_cast<double>(threads * kRounds * kAccumulators * 16 * 2) / seconds;
}

double measure_peak_flops(core::DType dtype) {
  if (dtype == core::DType::float32) return measure_peak_flops();
  constexpr std::int64_t kRows = 1024, kIn = 3072, kOut = 768;
  core::Tensor x = core::Tensor::empty({kRows, kIn}), weight = core::Tensor::empty({kOut, kIn});
  core::fill_uniform(x, -1, 1, core::RandomContext{}.stream(0));
  core::fill_uniform(weight, -1, 1, core::RandomContext{}.stream(1));
  x = x.to(dtype);
  weight = weight.to(dtype);
  return 2.0 * kRows * kIn * kOut / best_seconds(30, [&] { core::linear(x, weight, {}); });
}

double measure_bandwidth() {
  constexpr std::int64_t kElements = 1 << 25;  // 128 MiB an array
  std::vector<float> a(kElements, 0), b(kElements, 1), c(kElements, 2);
  const double seconds = best_seconds(6, [&] {
    core::parallel_for(kElements, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto k = static_cast<std::size_t>(i);
        a[k] = b[k] + 3.0f * c[k];
      }
    });
  });
  return 3.0 * sizeof(float) * kElements / seconds;
}

std::size_t peak_resident_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  return 0;
}

}  // namespace tandem::bench
