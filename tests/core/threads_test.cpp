// What threads may not change: results by their number, and results of several that compute with one tensor.
#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <numeric>
#include <thread>

#include "tandem/core/ops/conv2d.h"
#include "tandem/core/ops/matmul.h"
#include "tandem/core/ops/random_fill.h"
#include "tandem/core/parallel.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

Tensor uniform(const Shape& shape, std::uint32_t stream, DType dtype) {
  Tensor tensor = Tensor::empty(shape, {.dtype = dtype});
  fill_uniform(tensor, -1, 1, RandomContext{.seed = 3}.stream(stream));
  return tensor;
}

bool same_bits(const Tensor& a, const Tensor& b) { return a.has_layout_of(b) && testing::has_bytes_of(a, b); }

// Few rows, so that a cut by rows alone would leave the work to Eigen's own threads; with more inner products than one
// block.
TEST(Threads, Float64MatmulHasTheSameBitsForAnyNumber) {
  const int before = num_threads();
  const std::vector<Shape> sizes{{100, 3000, 500}, {128, 5000, 64}, {300, 700, 90}, {1, 4000, 300}, {300, 4000, 1}};
  for (const Shape& mkn : sizes) {
    const Tensor a = uniform({mkn[0], mkn[1]}, 1, DType::float64), b = uniform({mkn[1], mkn[2]}, 2, DType::float64);
    set_num_threads(1);
    const Tensor wanted = matmul(a, b);
    for (const int threads : {2, 3, 8}) {
      set_num_threads(threads);
      EXPECT_TRUE(same_bits(matmul(a, b), wanted)) << mkn.str() << " with " << threads << " threads";
    }
    // Against the definition, in one place at the end of each side.
    const auto row = a.select(0, -1).to_vector<double>(), column = b.select(1, -1).to_vector<double>();
    const double sum = std::inner_product(row.begin(), row.end(), column.begin(), 0.);
    EXPECT_NEAR(wanted.select(0, -1).select(0, -1).item(), sum, 1e-9) << mkn.str();
  }
  set_num_threads(before);
}

// Evaluating one model from several threads: the first of them pack the weights, all at once.
TEST(Threads, SeveralMayComputeWithTheSameWeights) {
  const Tensor x = uniform({1, 256, 4, 4}, 1, DType::float32).contiguous(MemoryFormat::channels_last);
  for (std::uint32_t round = 0; round < 10; ++round) {
    const Tensor w = uniform({256, 256, 3, 3}, 2 + round, DType::float32);  // large: packing takes a while
    const Tensor wanted = conv2d(x, w.clone(), {});
    constexpr int kThreads = 4;
    std::latch start(kThreads);
    std::vector<int> wrong(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        set_num_threads(1);
        conv2d(x, w.clone(), {});  // makes this thread's primitive
        start.arrive_and_wait();
        for (int i = 0; i < 2; ++i) wrong[static_cast<std::size_t>(t)] += !same_bits(conv2d(x, w, {}), wanted);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(kThreads)) << "round " << round;
  }
}

// Packed weights are those of the last change, however often it was packed before.
TEST(Threads, PackedWeightsFollowTheirChanges) {
  const Tensor x = uniform({1, 16, 8, 8}, 1, DType::float32).contiguous(MemoryFormat::channels_last);
  Tensor w = uniform({32, 16, 3, 3}, 2, DType::float32);
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t before = reorder_statistics().weights;
    const Tensor y = conv2d(x, w, {});
    for (int use = 0; use < 3; ++use) EXPECT_TRUE(same_bits(conv2d(x, w, {}), y));
    EXPECT_LE(reorder_statistics().weights, before + 2);  // at the first use, and at the second, which is kept
    EXPECT_TRUE(same_bits(conv2d(x, w.clone(), {}), y));
    w.copy_from(uniform(w.shape(), 10 + static_cast<std::uint32_t>(i), DType::float32));
  }
}

TEST(Threads, AnExceptionInOneRangeReachesTheCallerAndThreadsGoOnWorking) {
  const int before = num_threads();
  set_num_threads(2);
  for (const std::int64_t where : {0, 999}) {
    EXPECT_THROW(parallel_for(1000, 1,
                              [&](std::int64_t begin, std::int64_t end) {
                                if (begin <= where && where < end) fail("element {} is not to be had", where);
                              }),
                 Error);
  }
  std::vector<int> seen(1000);
  parallel_for(1000, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
  });
  EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), 1000);
  set_num_threads(before);
}

}  // namespace
}  // namespace tandem::core
