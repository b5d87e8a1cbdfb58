#include "tandem/core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

using Block = std::array<std::uint32_t, 4>;

// The known answers of the authors' own test vectors for Philox4x32-10.
TEST(Random, PhiloxKnownAnswers) {
  const auto draw = [](const Block& counter, const std::array<std::uint32_t, 2>& key) {
    return PhiloxStream{.key = key, .counter = {counter[1], counter[2], counter[3]}}.block(counter[0]);
  };
  EXPECT_EQ(draw({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(draw({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(draw({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, WordsAreTheBlocksOneAfterTheOther) {
  const PhiloxStream stream = RandomContext{.seed = 7, .epoch = 1, .step = 2, .shard = 3}.stream(4);
  for (const std::int64_t n : {0, 1, 3, 4, 127, 128, 129, 1000}) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(n) + 1, 42);
    stream.words(5, words.data(), n);
    for (std::int64_t i = 0; i < n; ++i) {
      const Block block = stream.block(static_cast<std::uint32_t>(5 + i / 4));
      ASSERT_EQ(words[static_cast<std::size_t>(i)], block[static_cast<std::size_t>(i % 4)]);
    }
    EXPECT_EQ(words.back(), 42u) << "one word too many was written";
  }
}

TEST(Random, EverythingInTheContextTellsStreamsApart) {
  const RandomContext base{.seed = 1, .epoch = 2, .step = 3, .shard = 4};
  std::set<Block> seen = {base.stream(5).block(0), base.stream(5).block(1), base.stream(6).block(0)};
  for (RandomContext other : {RandomContext{2, 2, 3, 4}, RandomContext{1, 3, 3, 4}, RandomContext{1, 2, 4, 4},
                              RandomContext{1, 2, 3, 5}, RandomContext{1 + (std::uint64_t{1} << 32), 2, 3, 4}})
    seen.insert(other.stream(5).block(0));
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_EQ(base.stream(5).block(9), (RandomContext{1, 2, 3, 4}.stream(5).block(9)));
  TANDEM_EXPECT_ERROR(base.stream(1 << 16), "random: operator 65536 and shard 4 must be below 65536");
  TANDEM_EXPECT_ERROR((RandomContext{.shard = 1 << 16}.stream(0)), "shard 65536");
}

TEST(Random, PermutationsArePermutationsAndEvenlySpread) {
  EXPECT_TRUE(random_permutation(0, {}).empty());
  EXPECT_EQ(random_permutation(1, {}), std::vector<std::int64_t>{0});
  for (const std::int64_t n : {2, 7, 1000}) {
    auto order = random_permutation(n, RandomContext{.seed = 1}.stream(0));
    EXPECT_EQ(order, random_permutation(n, RandomContext{.seed = 1}.stream(0)));
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
  }
  // Each of the 4! orders about equally often.
  std::map<std::vector<std::int64_t>, int> counts;
  for (std::uint32_t epoch = 0; epoch < 24000; ++epoch)
    ++counts[random_permutation(4, RandomContext{.seed = 9, .epoch = epoch}.stream(0))];
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace tandem::core
