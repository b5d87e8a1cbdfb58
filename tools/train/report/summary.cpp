#include "tools/train/report/summary.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tandem/core/allocator.h"
#include "tandem/distributed/distributed_data_parallel.h"
#include "tandem/train/format.h"
#include "tools/train/report/layers.h"
#include "tools/train/report/text_table.h"

namespace tandem::train {
namespace {

// Parameters of a frozen part are on no tape. While this lives all are, so that their layers are seen.
class AllTrained {
 public:
  explicit AllTrained(const nn::Module& model) : parameters_(model.named_parameters()) {
    for (auto& [name, variable] : parameters_) {
      if (!variable.requires_grad()) frozen_.insert(name);
      variable.set_requires_grad(true);
    }
  }
  ~AllTrained() {
    for (auto& [name, variable] : parameters_) variable.set_requires_grad(frozen_.count(name) == 0);
  }
  AllTrained(const AllTrained&) = delete;
  AllTrained& operator=(const AllTrained&) = delete;

  const std::set<std::string>& frozen() const { return frozen_; }

 private:
  std::vector<nn::NamedParameter> parameters_;
  std::set<std::string> frozen_;
};

// Of a larger batch this many samples are measured.
constexpr std::int64_t kMeasured = 16;

std::string readable(std::size_t bytes) {
  const char* unit = "B";
  auto amount = static_cast<double>(bytes);
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (amount < 1024) break;
    amount /= 1024;
    unit = larger;
  }
  return unit[0] == 'B' ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", amount, unit);
}

// The loss of the first samples in training mode, and again the first where there are fewer.
nn::Variable forward(const DataSource& data, Task& task, std::int64_t rows) {
  std::vector<std::int64_t> indices;
  for (std::int64_t row = 0; row < rows; ++row) indices.push_back(row % data.train->size());
  task.model().train();
  nn::Variable loss;
  const data::Batch batch = data.train->read(indices).to(core::default_device());
  for (const nn::Variable& sum : task.loss_sums(batch)) loss = loss.defined() ? loss + sum : sum;
  return loss;
}

/// Layers as a batch of `rows` has them; multiply-adds of one sample.
struct Layers {
  std::int64_t rows;
  std::vector<Layer> all;
};

// What is predicted of text depends on the samples, so those are read off as they are.
Layers read_layers(const DataSource& data, Task& task, std::int64_t batch_size) {
  const auto parameters = task.model().named_parameters();
  const AllTrained all_trained(task.model());
  const auto of = [&](std::int64_t rows) {
    return layers_of(forward(data, task, rows), parameters, all_trained.frozen());
  };
  if (task.items_are_rows()) return {batch_size, layers_for(batch_size, of(2), of(3))};
  const std::int64_t rows = std::min(batch_size, kMeasured);
  Layers layers{rows, of(rows)};
  for (Layer& layer : layers.all)
    if (layer.multiply_adds) *layer.multiply_adds /= rows;
  return layers;
}

std::string shown(std::int64_t number) { return number == 0 ? "-" : with_commas(number); }

// With a column for what is frozen, if anything is.
void print_layers(const Layers& layers) {
  Layer total;
  bool all_known = true;
  for (const Layer& layer : layers.all) {
    total.parameters += layer.parameters;
    total.frozen += layer.frozen;
    *total.multiply_adds += layer.multiply_adds.value_or(0);
    all_known = all_known && layer.multiply_adds;
  }
  std::vector<Align> columns{Align::left, Align::left, Align::left, Align::right, Align::right};
  if (total.frozen > 0) columns.push_back(Align::right);
  TextTable table(columns);
  const auto add = [&](std::vector<std::string> row, const std::string& frozen, const std::string& multiply_adds) {
    if (total.frozen > 0) row.push_back(frozen);
    row.push_back(multiply_adds);
    table.add(std::move(row));
  };
  add({"layer", "operator", "output", "parameters"}, "frozen", "multiply-adds");
  for (const Layer& layer : layers.all) {
    const bool is_used = !layer.op.empty();
    add({layer.module, is_used ? layer.op : "not used", is_used ? layer.output.str() : "-",
         layer.has_parameters && layer.parameters == 0 ? "shared" : shown(layer.parameters)},
        shown(layer.frozen), layer.multiply_adds ? shown(*layer.multiply_adds) : "?");
  }
  add({"total", "", "", with_commas(total.parameters)}, with_commas(total.frozen),
      (all_known ? "" : "at least ") + with_commas(*total.multiply_adds));
  fmt::print("\nlayers: outputs for a batch of {}, multiply-adds of one sample\n{}", layers.rows, table.str());
}

// What a forward leaves in memory until backward has passed, the batch and the loss included.
std::size_t measure_saved(const DataSource& data, Task& task, std::int64_t rows) {
  const auto in_use = [] { return core::allocator(core::kCpu).statistics().in_use; };
  const std::size_t before = in_use();
  const nn::Variable loss = forward(data, task, rows);
  return in_use() - before;
}

void print_memory(const Settings& settings, const DataSource& data, const TrainingState& state,
                  const distributed::BucketPlan& plan, std::int64_t batch_size) {
  TextTable table({Align::left, Align::right, Align::left});
  std::size_t total = 0;
  const auto add = [&](const char* kind, std::size_t bytes, std::string remark) {
    table.add({kind, readable(bytes), std::move(remark)});
    total += bytes;
  };
  std::size_t parameters = 0, trained = 0, gradients = 0, buffers = 0;
  for (const nn::Variable& parameter : state.model().parameters()) {
    parameters += parameter.data().bytes();
    if (parameter.requires_grad()) trained += parameter.data().bytes();
  }
  for (const auto& bucket : plan.buckets()) gradients += bucket.bytes();
  for (const nn::NamedBuffer& buffer : state.model().named_buffers()) buffers += buffer.tensor->bytes();
  std::vector<const char*> remembered = state.optimizer->state_kinds();
  if (settings.momentum == 0) remembered.clear();  // there is a velocity only where it is needed
  const std::int64_t rows = std::min(batch_size, kMeasured);
  const std::size_t of_row = measure_saved(data, *state.task, rows) / static_cast<std::size_t>(rows);

  add("parameters", parameters, "");
  add("gradients", gradients, "they lie in the buckets, which are sent as they are");
  add("optimizer state", remembered.size() * trained, fmt::format("{}", fmt::join(remembered, ", ")));
  add("buffers", buffers, "");
  add("saved by forward", of_row * static_cast<std::size_t>(batch_size),
      fmt::format("measured with {} samples{}", rows, rows < batch_size ? fmt::format(" of {}", batch_size) : ""));
  table.add({"total", readable(total), "beside it, gradients of outputs while backward runs"});
  fmt::print("\nmemory of a rank\n{}", table.str());
}

void print_buckets(const Settings& settings, const distributed::BucketPlan& plan,
                   const std::vector<distributed::ReducedParameter>& parameters) {
  TextTable table({Align::right, Align::right, Align::right, Align::left, Align::left});
  table.add({"bucket", "bytes", "parameters", "first", "last"});
  for (std::size_t b = 0; b < plan.size(); ++b) {
    const std::vector<std::size_t>& members = plan[b].members;
    table.add({std::to_string(b), with_commas(static_cast<std::int64_t>(plan[b].bytes())),
               std::to_string(members.size()), parameters[members.front()].name, parameters[members.back()].name});
  }
  const std::string limits = settings.bucket_cap_mb == 0
                                 ? "each gradient alone"
                                 : fmt::format("closed once they hold {} MiB, the first {} MiB", settings.bucket_cap_mb,
                                               std::min(settings.first_bucket_mb, settings.bucket_cap_mb));
  fmt::print("\nbuckets of gradients, in order of reduction: {}\n{}", limits, table.str());
  if (settings.bucket_order == "observed")
    fmt::print("  after the first update they are made anew, in the order in which gradients arrived\n");
}

}  // namespace

void print_summary(const Settings& settings, const DataSource& data, const TrainingState& state) {
  const std::int64_t batch_size = std::min(settings.batch_size, data.train->size());
  const auto parameters = distributed::reduced_parameters(state.model());
  const distributed::BucketPlan plan = distributed::initial_plan(
      parameters,
      distributed::limits_of({.bucket_cap_mb = settings.bucket_cap_mb, .first_bucket_mb = settings.first_bucket_mb}));
  print_layers(read_layers(data, *state.task, batch_size));
  print_memory(settings, data, state, plan, batch_size);
  print_buckets(settings, plan, parameters);
  std::fflush(stdout);
}

}  // namespace tandem::train
