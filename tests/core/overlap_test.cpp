// Writing to memory that is also read, or that several elements share.
#include <gtest/gtest.h>

#include "tandem/core/ops/binary.h"
#include "tandem/core/ops/broadcast.h"
#include "tandem/core/ops/copy.h"
#include "tandem/core/ops/unary.h"

namespace tandem::core {
namespace {

using Values = std::vector<std::int64_t>;

TEST(Overlap, CopyBetweenViewsOfOneMemory) {
  Tensor square = Tensor::arange(9).reshape({3, 3});
  square.copy_from(square.transpose(0, 1));
  EXPECT_EQ(square.to_vector<std::int64_t>(), (Values{0, 3, 6, 1, 4, 7, 2, 5, 8}));

  Tensor row = Tensor::arange(6);
  row.slice(0, 1, 6).copy_from(row.slice(0, 0, 5));
  EXPECT_EQ(row.to_vector<std::int64_t>(), (Values{0, 0, 1, 2, 3, 4}));

  Tensor repeated = Tensor::arange(3);
  repeated.copy_from(repeated.slice(0, 2, 3));
  EXPECT_EQ(repeated.to_vector<std::int64_t>(), (Values{2, 2, 2}));
}

TEST(Overlap, AccumulateBetweenViewsOfOneMemory) {
  Tensor square = Tensor::arange(4).reshape({2, 2});
  accumulate(square, square.transpose(0, 1));
  EXPECT_EQ(square.to_vector<std::int64_t>(), (Values{0, 3, 3, 6}));
}

TEST(Overlap, IsOnlySeenWhereThereIsOne) {
  const Tensor row = Tensor::arange(6);
  EXPECT_FALSE(may_disturb(row.slice(0, 0, 3), row.slice(0, 3, 6)));
  EXPECT_TRUE(may_disturb(row.slice(0, 0, 4), row.slice(0, 3, 6)));
  EXPECT_FALSE(may_disturb(row, row));
  EXPECT_FALSE(may_disturb(row, row.clone()));
  // Element 1 of the int32 view lies in element 0 of the int64 one.
  const Tensor narrow(row.storage(), {1}, {1}, 1, DType::int32);
  EXPECT_TRUE(may_disturb(narrow, row.slice(0, 0, 1)));
  EXPECT_FALSE(may_disturb(narrow, row.slice(0, 1, 2)));
}

TEST(Overlap, CopyToRepeatedMemoryIsAnError) {
  Tensor repeated = Tensor::zeros({1}).expand({4});
  try {
    repeated.copy_from(Tensor::from<float>({1, 2, 3, 4}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("copy: cannot write in place to [4]"), std::string::npos) << error.what();
  }
}

TEST(Overlap, ATensorWithoutElementsRepeatsNothing) {
  for (const auto& [from, to] : {std::pair(Shape{1, 0}, Shape{3, 0}), {{0, 1}, {0, 3}}, {{1, 0, 1}, {2, 0, 3}}}) {
    Tensor repeated = Tensor::zeros(from).expand(to);
    EXPECT_EQ(repeated.to_vector<float>(), std::vector<float>{});
    repeated.copy_from(Tensor::scalar(1));
    repeated.fill(1);
    accumulate(repeated, repeated);
    scale(repeated, 2);
    EXPECT_TRUE(repeated.is_dense());
    EXPECT_EQ(repeated.clone().shape(), repeated.shape());
    EXPECT_EQ(repeated.reshape({-1, 1}).shape(), (Shape{0, 1}));
    EXPECT_EQ(repeated.str(), fmt::format("float32 {} {{}}", repeated.shape().str()));
  }
}

TEST(Overlap, ExpandChecksTheNumberOfElements) {
  EXPECT_THROW(Tensor::scalar(1).expand({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  EXPECT_THROW(Tensor::scalar(1).expand({-1}), Error);
}

}  // namespace
}  // namespace tandem::core
