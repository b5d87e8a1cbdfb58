// The oracle for nets that are awkward: weights in channels-last and transposed memory, shared weights, float32 and
// float64 parameters together, branches that not every rank takes, two DistributedDataParallels in one loss.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tandem/core/ops/random_fill.h"
#include "tandem/optim/sgd.h"
#include "tests/distributed/small_models.h"

namespace tandem::distributed {
namespace {

using autograd::cast;
using autograd::linear;

Tensor noise(const core::Shape& shape, std::uint32_t number, core::MemoryFormat format = core::MemoryFormat::contiguous,
             DType dtype = DType::float64) {
  Tensor tensor = Tensor::empty(shape, {.dtype = dtype});
  core::fill_uniform(tensor, -1, 1, core::RandomContext{.seed = 4}.stream(number));
  return tensor.contiguous(format);
}

class AwkwardNet final : public nn::Module {
 public:
  /// `seed`: ranks begin with other weights, which rank 0's replace.
  AwkwardNet(bool is_mixed, std::uint32_t seed) : is_mixed_(is_mixed) {
    conv_ = register_parameter("conv", noise({3, 2, 3, 3}, 10 * seed + 1, core::MemoryFormat::channels_last));
    transposed_ = register_parameter("transposed", noise({48, 5}, 10 * seed + 2).transpose(0, 1));
    shared_ = register_parameter("shared", noise({5, 5}, 10 * seed + 3));
    last_ = register_parameter("last", noise({4, 5}, 10 * seed + 4, core::MemoryFormat::contiguous,
                                             is_mixed ? DType::float32 : DType::float64));
    branch_ = register_parameter("branch", noise({4, 5}, 10 * seed + 5));
  }

  /// [n, 2, 4, 4] -> the sum of the losses of its rows; `branch_rows` of them take the branch, too.
  Variable loss(const Tensor& input, const Tensor& branch_input) const {
    const Variable h = features(input);
    const Variable out = linear(is_mixed_ ? cast(h, DType::float32) : h, last_, {});
    Variable total = autograd::sum(autograd::square(is_mixed_ ? cast(out, DType::float64) : out));
    if (branch_input.size(0) > 0)
      total = total + autograd::sum(autograd::tanh(linear(features(branch_input), branch_, {})));
    return total;
  }

 private:
  Variable features(const Tensor& input) const {
    const Variable image = autograd::tanh(autograd::conv2d(Variable(input), conv_, {}, {.padding = {1, 1}}));
    Variable h = linear(autograd::flatten(image), transposed_, {});
    for (int i = 0; i < 2; ++i) h = autograd::tanh(linear(h, shared_, {}));
    return h;
  }

  bool is_mixed_;
  Variable conv_, transposed_, shared_, last_, branch_;
};

struct NetCase {
  const char* name;
  bool is_mixed;
  /// Whether row `row` of an update takes the branch: which rank and micro-step it belongs to.
  std::function<bool(int rank, int micro_step)> takes_branch;
  std::function<void(DataParallelOptions&)> choose = [](DataParallelOptions&) {};
};

std::ostream& operator<<(std::ostream& stream, const NetCase& c) { return stream << c.name; }

constexpr int kSteps = 3, kBatch = 2;

Tensor rows_where(const Tensor& all, const std::function<bool(int row)>& condition) {
  std::int64_t count = 0;
  for (int row = 0; row < all.size(0); ++row) count += condition(row);
  Tensor chosen = Tensor::empty({count, 2, 4, 4}, {.dtype = DType::float64});
  std::int64_t next = 0;
  for (int row = 0; row < all.size(0); ++row) {
    if (!condition(row)) continue;
    chosen.slice(0, next, next + 1).copy_from(all.slice(0, row, row + 1));
    ++next;
  }
  return chosen;
}

/// Trains with all rows at once (rank -1), or as one of the ranks.
std::vector<Values> train(const NetCase& c, int ranks, int micro_steps, const std::shared_ptr<ProcessGroup>& group) {
  const int rank = group ? group->rank() : -1;
  AwkwardNet a(c.is_mixed, static_cast<std::uint32_t>(std::max(rank, 0))),
      b(c.is_mixed, static_cast<std::uint32_t>(7 + std::max(rank, 0)));
  std::vector<std::unique_ptr<DistributedDataParallel>> ddps;
  if (group) {
    DataParallelOptions options;
    options.bucket_cap_mb = 0.0005;
    options.find_unused_parameters = true;
    c.choose(options);
    for (AwkwardNet* net : {&a, &b}) ddps.push_back(std::make_unique<DistributedDataParallel>(*net, group, options));
  }
  std::vector<Variable> parameters = a.parameters();
  for (const Variable& parameter : b.parameters()) parameters.push_back(parameter);
  optim::Sgd sgd(parameters, {.lr = 0.01, .momentum = 0.9, .weight_decay = 0.01});
  const int rows = ranks * micro_steps * kBatch - 1;
  const auto rank_of = [&](int row) { return row % ranks; };
  const auto micro_step_of = [&](int row) { return row / (ranks * kBatch); };
  for (int step = 0; step < kSteps; ++step) {
    const Tensor all = noise({rows, 2, 4, 4}, static_cast<std::uint32_t>(100 + step));
    sgd.zero_grad();
    for (int m = group ? 0 : -1; m < (group ? micro_steps : 0); ++m) {
      const auto is_mine = [&](int row) { return !group || (rank_of(row) == rank && micro_step_of(row) == m); };
      const Tensor input = rows_where(all, is_mine);
      const Tensor branch =
          rows_where(all, [&](int row) { return is_mine(row) && c.takes_branch(rank_of(row), micro_step_of(row)); });
      const Variable loss = (a.loss(input, branch) + b.loss(input, branch)) * ((group ? ranks : 1.0) / rows);
      std::vector<DistributedDataParallel::NoSync> local_only;
      if (group && m + 1 < micro_steps)
        for (const auto& ddp : ddps) local_only.push_back(ddp->no_sync());
      loss.backward();
    }
    sgd.step();
  }
  std::vector<Values> weights;
  for (const Variable& parameter : parameters) weights.push_back(values(parameter.data()));
  return weights;
}

class AwkwardOracle : public testing::TestWithParam<NetCase> {};

TEST_P(AwkwardOracle, ranks_train_as_one_process) {
  const NetCase& c = GetParam();
  const double bound = c.is_mixed ? 1e-5 : 1e-10;
  for (const int ranks : {1, 2, 3, 4})
    for (const int micro_steps : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} micro-steps", ranks, micro_steps));
      const std::vector<Values> alone = train(c, ranks, micro_steps, nullptr);
      std::vector<std::vector<Values>> all(static_cast<std::size_t>(ranks));
      run_as_threads(ranks, [&](World& world) {
        all[static_cast<std::size_t>(world.rank())] = train(c, ranks, micro_steps, group_of(world));
        world.leave();
      });
      for (const auto& weights : all) {
        EXPECT_EQ(weights, all.front());  // bits
        double worst = 0;
        for (std::size_t i = 0; i < alone.size(); ++i)
          for (std::size_t j = 0; j < alone[i].size(); ++j)
            worst = std::max(worst, std::abs(weights[i][j] - alone[i][j]));
        EXPECT_LE(worst, bound);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Threads, AwkwardOracle,
    testing::Values(NetCase{"branch_of_all", false, [](int, int) { return true; },
                            [](DataParallelOptions& options) { options.find_unused_parameters = false; }},
                    NetCase{"branch_of_one_rank", false, [](int rank, int) { return rank == 1; }},
                    NetCase{"branch_of_nobody", false, [](int, int) { return false; }},
                    NetCase{"branch_in_the_first_micro_step", false,
                            [](int, int micro_step) { return micro_step == 0; }},
                    NetCase{"branch_of_one_rank_static", false, [](int rank, int) { return rank == 1; },
                            [](DataParallelOptions& options) { options.static_graph = true; }},
                    NetCase{"branch_of_one_rank_observed", false, [](int rank, int) { return rank == 1; },
                            [](DataParallelOptions& options) { options.bucket_order = BucketOrder::observed; }},
                    NetCase{"mixed_dtypes", true, [](int rank, int) { return rank != 0; }}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tandem::distributed
