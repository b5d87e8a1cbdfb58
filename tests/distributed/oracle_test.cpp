#include "tests/distributed/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>

#include "tandem/autograd/engine.h"
#include "tandem/nn/batch_norm2d.h"
#include "tests/elements.h"

namespace tandem::distributed {
namespace {

/// Passes everything on, and counts.
class CountingGroup final : public ProcessGroup {
 public:
  using Counts = std::map<std::string, int>;

  CountingGroup(std::shared_ptr<ProcessGroup> inner, std::shared_ptr<Counts> counts)
      : ProcessGroup(inner->name(), inner->rank(), inner->size()),
        inner_(std::move(inner)),
        counts_(std::move(counts)) {}

  std::shared_ptr<ProcessGroup> duplicate(const std::string& name) override {
    return std::make_shared<CountingGroup>(inner_->duplicate(name), counts_);
  }
  void abort(const std::string& cause) override { inner_->abort(cause); }
  WorkPtr submit(Collective collective) override {
    ++(*counts_)[distributed::name(collective.kind)];
    return inner_->submit(std::move(collective));
  }

 private:
  std::shared_ptr<ProcessGroup> inner_;
  std::shared_ptr<Counts> counts_;
};

double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].to_vector<double>(), y = b[i].to_vector<double>();
    for (std::size_t j = 0; j < x.size(); ++j) largest = std::max(largest, std::abs(x[j] - y[j]));
  }
  return largest;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return testing::has_bytes_of(x, y);
}

struct Ranks {
  std::vector<Trained> trained;
  std::vector<CountingGroup::Counts> counts;
};

Ranks train_ranks(const OracleCase& c) {
  Ranks ranks;
  ranks.trained.resize(static_cast<std::size_t>(c.ranks));
  ranks.counts.resize(static_cast<std::size_t>(c.ranks));
  run_as_threads(c.ranks, [&](World& world) {
    const auto counts = std::make_shared<CountingGroup::Counts>();
    const auto group = std::make_shared<CountingGroup>(world.make_group("world"), counts);
    ranks.trained[static_cast<std::size_t>(world.rank())] = train_rank(c, group);
    ranks.counts[static_cast<std::size_t>(world.rank())] = *counts;
    world.leave();
  });
  return ranks;
}

void expect_as_one_process(const OracleCase& c, const Trained& alone) {
  const Ranks ranks = train_ranks(c);
  const double bound = c.dtype == core::DType::float64 ? 1e-10 : 1e-5;
  for (int r = 0; r < c.ranks; ++r) {
    const Trained& trained = ranks.trained[static_cast<std::size_t>(r)];
    ASSERT_EQ(trained.names, alone.names);
    EXPECT_LE(largest_difference(trained.gradients, alone.gradients), bound) << "rank " << r;
    EXPECT_LE(largest_difference(trained.weights, alone.weights), bound) << "rank " << r;
    for (std::size_t i = 0; i < alone.names.size(); ++i)
      EXPECT_TRUE(same_bits(trained.weights[i], ranks.trained.front().weights[i]))
          << alone.names[i] << " of rank " << r << " is not rank 0's";
    // One all-reduce for each bucket and update, however many micro-steps; nothing copied. And the bitmap, where asked.
    int all_reduces = 0;
    for (const IterationRecord& record : trained.records) {
      all_reduces += static_cast<int>(record.buckets.size());
      EXPECT_EQ(record.bytes_copied, 0);
    }
    if (c.options.static_graph) {
      ++all_reduces;
    } else if (c.options.find_unused_parameters) {
      all_reduces += kSteps;
    }
    EXPECT_EQ(ranks.counts[static_cast<std::size_t>(r)].at("all_reduce"), all_reduces);
  }
}

class Oracle : public ::testing::TestWithParam<OracleCase> {};

TEST_P(Oracle, ranks_train_as_one_process) { expect_as_one_process(GetParam(), train_alone(GetParam())); }

std::vector<OracleCase> oracle_cases() {
  std::vector<OracleCase> cases;
  for (const char* model : {"mlp", "convnet"})
    for (const int ranks : {1, 2, 3, 4})
      for (const int micro_steps : {1, 2, 3})
        for (const core::DType dtype : {core::DType::float32, core::DType::float64})
          cases.push_back({.model = model, .ranks = ranks, .micro_steps = micro_steps, .dtype = dtype});
  cases.push_back({.ranks = 3, .micro_steps = 2, .options = {.bucket_cap_mb = 0}});
  cases.push_back({.ranks = 3, .micro_steps = 2, .options = {.bucket_cap_mb = 1000, .first_bucket_mb = 1000}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Threads, Oracle, ::testing::ValuesIn(oracle_cases()), [](const auto& tested) {
  const OracleCase& c = tested.param;
  return fmt::format("{}_{}_ranks_{}_micro_steps_{}_cap_{}", c.model, c.ranks, c.micro_steps, core::name(c.dtype),
                     static_cast<int>(c.options.bucket_cap_mb));
});

/// Model, ranks, micro-steps: every combination of what may be chosen.
class Product : public ::testing::TestWithParam<std::tuple<const char*, int, int>> {};

TEST_P(Product, any_options_train_as_one_process) {
  OracleCase c{.batch = 1};
  std::tie(c.model, c.ranks, c.micro_steps) = GetParam();
  c.dtype = c.model == "mlp" ? core::DType::float64 : core::DType::float32;
  if (rows_of_update(c) == 0) c.batch = 2;
  const Trained alone = train_alone(c);
  for (const double cap : {0.0, 0.001, 25.0, 1e6})
    for (const BucketOrder order : {BucketOrder::reverse, BucketOrder::observed})
      for (const bool find_unused : {false, true})
        for (const bool static_graph : {false, true})
          for (const bool overlap : {false, true}) {
            c.options.bucket_cap_mb = cap;
            c.options.bucket_order = order;
            c.options.find_unused_parameters = find_unused;
            c.options.static_graph = static_graph;
            c.options.overlap = overlap;
            SCOPED_TRACE(fmt::format("cap {}, {} order, find unused {}, static graph {}, overlap {}", cap,
                                     order == BucketOrder::reverse ? "reverse" : "observed", find_unused, static_graph,
                                     overlap));
            expect_as_one_process(c, alone);
          }
}

INSTANTIATE_TEST_SUITE_P(Threads, Product,
                         ::testing::Combine(::testing::Values("mlp", "convnet"), ::testing::Values(1, 2, 3, 4),
                                          ::testing::Values(1, 2, 3)),
                         [](const auto& tested) {
                           return fmt::format("{}_{}_ranks_{}_micro_steps", std::get<0>(tested.param),
                                              std::get<1>(tested.param), std::get<2>(tested.param));
                         });

/// Batch norms keep their statistics, as in fine-tuning: with those of the batch, ranks would not be one process.
std::shared_ptr<nn::Module> frozen_resnet18(std::uint64_t seed) {
  auto model =
      models::make_model("resnet18", {.seed = seed, .classes = 10, .in_channels = 1, .stem = models::Stem::small});
  for (nn::Module* module : model->modules())
    if (dynamic_cast<nn::BatchNorm2d*>(module)) module->eval();
  return model;
}

/// Ranks, micro-steps, whether unused parameters are looked for.
class FrozenResNet : public ::testing::TestWithParam<std::tuple<int, int, bool>> {};

TEST_P(FrozenResNet, ranks_train_as_one_process) {
  OracleCase c{.sample = {1, 4, 4}, .make = frozen_resnet18};
  std::tie(c.ranks, c.micro_steps, c.options.find_unused_parameters) = GetParam();
  expect_as_one_process(c, train_alone(c));
}

INSTANTIATE_TEST_SUITE_P(Threads, FrozenResNet,
                         ::testing::Values(std::tuple{1, 1, false}, std::tuple{2, 1, false}, std::tuple{2, 2, true},
                                         std::tuple{3, 1, true}, std::tuple{3, 1, false}, std::tuple{4, 1, false},
                                         std::tuple{4, 1, true}),
                         [](const auto& tested) {
                           return fmt::format("{}_ranks_{}_micro_steps{}", std::get<0>(tested.param),
                                              std::get<1>(tested.param),
                                              std::get<2>(tested.param) ? "_find_unused" : "");
                         });

}  // namespace
}  // namespace tandem::distributed
