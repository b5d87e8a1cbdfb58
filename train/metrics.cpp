#include "tandem/train/metrics.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tandem/core/files/file.h"
#include "tandem/core/fnv1a.h"

namespace tandem::train {
namespace {

// Thousandths are enough for milliseconds, rates and mebibytes.
double rounded(double value) { return std::round(value * 1000) / 1000; }

/// Seconds since 1970, UTC.
double unix_time() {
  return rounded(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
}

void write(std::vector<OutputLines>& files, nlohmann::ordered_json line) {
  if (files.empty()) return;
  line["time"] = unix_time();
  const std::string text = line.dump();
  for (OutputLines& file : files) file.add(text);
}

}  // namespace

std::string weights_hash(const nn::Module& model) {
  std::uint64_t hash = core::fnv1a("");
  for (const nn::Variable& parameter : model.parameters()) {
    const core::Tensor dense = parameter.data().to(core::kCpu).contiguous();
    hash = core::fnv1a({static_cast<const char*>(dense.raw_data()), dense.bytes()}, hash);
  }
  return fmt::format("{:016x}", hash);
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;  // Linux counts KiB
}

std::string metrics_until(const std::string& text, std::int64_t step) {
  std::string kept, line;
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.contains("done")) break;
    if (const auto found = json.find("step"); found != json.end() && (!found->is_number() || *found > step)) break;
    kept += line + '\n';
  }
  return kept;
}

std::int64_t last_evaluation(const std::string& text) {
  std::int64_t step = -1;
  std::string line;
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("eval_loss") && json.contains("step") && json["step"].is_number_integer())
      step = json["step"];
  }
  return step;
}

Metrics::Metrics(const std::vector<std::filesystem::path>& files, std::int64_t step, StopSignal& stop) {
  for (const auto& path : files) {
    const bool exists = std::filesystem::exists(path);
    if (!exists || std::filesystem::is_regular_file(path)) {  // not a pipe or a terminal
      const WriteLock of_the_old_one(path);
      const std::string before = exists && step > 0 ? core::read_file(path) : "";
      const std::string kept = metrics_until(before, step);
      evaluated_step_ = std::max(evaluated_step_, last_evaluation(kept));
      core::write_file_atomically(path, kept);
    }
    files_.emplace_back(path, OutputLines::Begin::behind_what_is_there, stop);
    locks_.emplace_back(path);
  }
}

void Metrics::update(const UpdateReport& r, const distributed::Reducer&) {
  if (files_.empty()) return;
  nlohmann::ordered_json line{{"step", r.step},
                              {"epoch", r.epoch},
                              {"loss", r.has_items ? nlohmann::ordered_json(r.loss) : nullptr},
                              {"lr", r.lr},
                              {"samples_per_s", rounded(r.samples_per_s())},
                              {"step_ms", rounded(r.step_ms)},
                              {"data_ms", rounded(r.data_ms)},
                              {"forward_ms", rounded(r.forward_ms)},
                              {"backward_ms", rounded(r.backward_ms)},
                              {"comm_ms", rounded(r.comm_ms)},
                              {"comm_exposed_ms", rounded(r.comm_exposed_ms)},
                              {"optimizer_ms", rounded(r.optimizer_ms)},
                              {"all_reduces", r.all_reduces}};
  if (r.terms.size() > 1)
    for (const auto& [name, value] : r.terms) line[name] = value;
  if (r.grad_norm) line["grad_norm"] = *r.grad_norm;
  write(files_, line);
}

void Metrics::evaluation(std::int64_t step, std::int64_t epoch, const Evaluation& result) {
  nlohmann::ordered_json line{{"step", step}, {"epoch", epoch}, {"eval_loss", nullptr}, {"eval_accuracy", nullptr}};
  if (result.has_items) line.update({{"eval_loss", result.loss}, {"eval_accuracy", result.accuracy}});
  if (result.terms.size() > 1)
    for (const auto& [name, value] : result.terms) line["eval_" + name] = value;
  write(files_, line);
}

void Metrics::done(bool complete, std::int64_t steps, const nn::Module& model) {
  write(files_, {{"done", complete},
                 {"steps", steps},
                 {"peak_rss_mb", rounded(peak_rss_mb())},
                 {"weights_hash", weights_hash(model)}});
}

}  // namespace tandem::train
