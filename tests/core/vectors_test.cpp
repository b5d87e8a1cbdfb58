#include "tandem/core/cpu/vectors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "tandem/core/cpu/blocks.h"
#include "tandem/core/cpu/gemm.h"

namespace tandem::core::cpu {
namespace {

// Near each bfloat16: itself, what lies beside the middle to the next one, and the middle.
std::vector<float> floats_around_all_bfloat16() {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 1u << 16; ++upper)
    for (const std::uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  return values;
}

TEST(Vectors, RoundToBfloat16AsOneElementDoes) {
  const std::vector<float> values = floats_around_all_bfloat16();
  std::vector<bfloat16> rounded(values.size());
  round_to_bfloat16(values.data(), static_cast<std::int64_t>(values.size()), rounded.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::fpclassify(values[i]) == FP_SUBNORMAL) {  // may be zero
      ASSERT_TRUE(rounded[i].bits == bfloat16(values[i]).bits || (rounded[i].bits & 0x7fffu) == 0) << values[i];
      continue;
    }
    ASSERT_EQ(rounded[i].bits, bfloat16(values[i]).bits) << values[i];
  }
}

TEST(Vectors, RoundByIntegersAsOneElementDoes) {  // what processors without the instruction take
  const std::vector<float> values = floats_around_all_bfloat16();
  for (std::size_t i = 0; i + kLanes<float> <= values.size(); i += kLanes<float>) {
    const HalfWords bits = bfloat16_bits_by_integers(load_vector(values.data() + i));
    for (std::size_t lane = 0; lane < kLanes<float>; ++lane)
      ASSERT_EQ(bits[lane], bfloat16(values[i + lane]).bits) << values[i + lane];
  }
}

TEST(Vectors, MultiplyPairsAlikeByInstructionAndByHalves) {
  Bfloat16Pair row[kLanes<float>];
  std::uint32_t bits = 1;
  for (int round = 0; round < 100; ++round) {
    const auto pair = [&bits] {  // two numbers between -2 and 2
      bits = bits * 1664525u + 1013904223u;
      return Bfloat16Pair{(bits & 0x80ff80ffu) | 0x3f003f00u};
    };
    for (Bfloat16Pair& one : row) one = pair();
    const Bfloat16Pair a = pair();
    Vector<std::uint32_t> words;
    std::memcpy(&words, row, sizeof(words));
    Vector<float> sum{1, 2, 3}, by_halves = sum;
    multiply_add(sum, a, row);
    multiply_add_by_halves(by_halves, a.bits, words);
    for (std::size_t lane = 0; lane < kLanes<float>; ++lane) {
      EXPECT_NEAR(sum[lane], by_halves[lane], 5e-6);
      const auto half = [](std::uint32_t word) { return static_cast<double>(std::bit_cast<float>(word)); };
      const double expected = (lane < 3 ? static_cast<double>(lane) + 1 : 0) +
                              half(a.bits << 16) * half(row[lane].bits << 16) +
                              half(a.bits & 0xffff0000u) * half(row[lane].bits & 0xffff0000u);
      EXPECT_NEAR(by_halves[lane], expected, 5e-6);
    }
  }
}

TEST(Vectors, RoundTheSameInAndAfterWholeVectors) {
  std::vector<float> values = floats_around_all_bfloat16();
  values.erase(values.begin(), values.begin() + 3);  // so that runs do not begin with the same bits
  std::vector<bfloat16> at_once(values.size());
  round_to_bfloat16(values.data(), static_cast<std::int64_t>(values.size()), at_once.data());
  std::size_t begin = 0;
  for (std::int64_t n = 0; begin + static_cast<std::size_t>(n) <= values.size();
       begin += static_cast<std::size_t>(n++)) {
    std::vector<bfloat16> run(static_cast<std::size_t>(n) + 1);
    run.back().bits = 0x1234;
    round_to_bfloat16(values.data() + begin, n, run.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) ASSERT_EQ(run[i].bits, at_once[begin + i].bits);
    ASSERT_EQ(run.back().bits, 0x1234) << "wrote beyond the end";
  }
}

TEST(Vectors, ReadWhatTheyStore) {
  std::vector<bfloat16> x(kLanes<float> + 5), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = bfloat16(static_cast<float>(i) - 3.5f);
  for_each_vector<float>(static_cast<std::int64_t>(x.size()), [&](auto i) { put(y.data(), i, 2 * at(x.data(), i)); });
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(static_cast<float>(y[i]), 2 * static_cast<float>(x[i]));
}

}  // namespace
}  // namespace tandem::core::cpu
