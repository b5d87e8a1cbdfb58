#include "tandem/core/shape.h"

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace tandem::core {
namespace {

TEST(Shape, ListsUpToSixSizes) {
  Shape shape = {2, 3};
  EXPECT_EQ(shape.rank(), 2);
  EXPECT_EQ(shape.back(), 3);
  shape.push_back(4);
  EXPECT_EQ(shape, (Shape{2, 3, 4}));
  EXPECT_NE(shape, (Shape{2, 3}));
  EXPECT_NE(shape, (Shape{2, 3, 5}));
  EXPECT_EQ(shape.str(), "[2, 3, 4]");
  EXPECT_EQ(Shape{}.str(), "[]");
  EXPECT_TRUE(Shape{}.empty());
  EXPECT_EQ(Dims::filled(3, 7), (Shape{7, 7, 7}));
  TANDEM_EXPECT_ERROR((Shape{1, 2, 3, 4, 5, 6, 7}), "7 dimensions, at most 6");
  Shape six = {1, 2, 3, 4, 5, 6};
  TANDEM_EXPECT_ERROR(six.push_back(7), "7 dimensions, at most 6");
}

TEST(Shape, NumelChecks) {
  EXPECT_EQ(numel({}), 1);
  EXPECT_EQ(numel({2, 0, 3}), 0);
  EXPECT_EQ(numel({2, 3, 4}), 24);
  TANDEM_EXPECT_ERROR(numel({2, -1}), "negative size in [2, -1]");
  TANDEM_EXPECT_ERROR(numel({1ll << 40, 1ll << 40}), "overflows");
}

TEST(Shape, StridesOfBothFormats) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Strides{});
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Strides{4, 4, 1}));
  EXPECT_EQ(channels_last_strides({2, 3, 4, 5}), (Strides{60, 1, 15, 3}));
  TANDEM_EXPECT_ERROR(channels_last_strides({2, 3, 4}),
                      "channels_last: needs 4 dimensions (N, C, H, W), got [2, 3, 4]");
}

TEST(Shape, NormalizeDim) {
  EXPECT_EQ(normalize_dim("op", 1, 3), 1);
  EXPECT_EQ(normalize_dim("op", -1, 3), 2);
  EXPECT_EQ(normalize_dim("op", -3, 3), 0);
  TANDEM_EXPECT_ERROR(normalize_dim("op", 3, 3), "op: no dimension 3 in a tensor of 3 dimensions");
  TANDEM_EXPECT_ERROR(normalize_dim("op", -4, 3), "op: no dimension -4");
  TANDEM_EXPECT_ERROR(normalize_dim("op", 0, 0), "op: no dimension 0 in a tensor of 0 dimensions");
}

TEST(Shape, Broadcast) {
  EXPECT_EQ(broadcast_shape("op", {2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));
  EXPECT_EQ(broadcast_shape("op", {}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shape("op", {0, 3}, {1, 1}), (Shape{0, 3}));
  EXPECT_EQ(broadcast_shape("op", {1}, {0}), Shape{0});
  TANDEM_EXPECT_ERROR(broadcast_shape("op", {2, 3}, {2, 4}),
                      "op: shapes [2, 3] and [2, 4] do not broadcast: sizes 3 and 4 at dimension 1 from the back");
  TANDEM_EXPECT_ERROR(broadcast_shape("op", {0}, {2}), "do not broadcast");
}

}  // namespace
}  // namespace tandem::core
