#include "tandem/core/alignment.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tandem::core {
namespace {

TEST(Alignment, RoundsUpToWholeUnits) {
  EXPECT_EQ(divide_up(0, 3), 0);
  EXPECT_EQ(divide_up(6, 3), 2);
  EXPECT_EQ(divide_up(7, 3), 3);
  for (std::size_t bytes = 1; bytes < 1000; ++bytes) {
    const std::size_t aligned = align_up(bytes);
    ASSERT_EQ(aligned % kAlignment, 0u);
    ASSERT_GE(aligned, bytes);
    ASSERT_LT(aligned - bytes, kAlignment);
  }
  EXPECT_EQ(align_up(std::size_t{0}), 0u);
  EXPECT_EQ(align_up((std::int64_t{1} << 33) + 1), (std::int64_t{1} << 33) + 64);
  EXPECT_EQ(align_up(std::size_t{10}, std::size_t{4}), 12u);
}

}  // namespace
}  // namespace tandem::core
