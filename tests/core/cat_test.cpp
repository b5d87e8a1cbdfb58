#include "tandem/core/ops/cat.h"

#include <gtest/gtest.h>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

// Each tensor must be found again in its slice, and the sizes must add up.
void expect_joined(const std::vector<Tensor>& tensors, int dim) {
  const Tensor result = cat(tensors, dim);
  EXPECT_EQ(result.dtype(), tensors[0].dtype());
  std::int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t end = begin + tensor.size(dim);
    EXPECT_EQ(result.slice(dim, begin, end).to_vector<double>(), tensor.to_vector<double>());
    begin = end;
  }
  EXPECT_EQ(result.size(dim), begin);
}

TEST(Cat, JoinsEveryDtypeAndLayout) {
  for (const DType dtype : kEveryDType)
    for (int dim = -3; dim < 3; ++dim) {
      const Tensor x = counting({2, 3, 4}, dtype);
      expect_joined({x}, dim);
      expect_joined({x, x.transpose(0, 2).contiguous().transpose(0, 2), x}, dim);
      expect_joined({counting({4, 6, 8}, dtype).slice(0, 0, 4, 2).slice(1, 1, 6, 2).slice(2, 0, 8, 2), x}, dim);
      expect_joined({counting({1}, dtype).expand({2, 3, 4}), x}, dim);
      expect_joined({x.slice(dim, 0, 0), x, x.slice(dim, 0, 1)}, dim);
    }
}

TEST(Cat, TakesABracedList) {
  const Tensor a = Tensor::from<float>({1, 2}, {2, 1}), b = Tensor::from<float>({3, 4}, {2, 1});
  EXPECT_EQ(cat({a, b}, 1).to_vector<float>(), (std::vector<float>{1, 3, 2, 4}));
  EXPECT_EQ(cat({a}, 0).to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(Cat, OfOneDimension) {
  EXPECT_EQ(cat({Tensor::from<float>({1, 2}), Tensor::from<float>({}), Tensor::from<float>({3})}, 0).to_vector<float>(),
            (std::vector<float>{1, 2, 3}));
}

TEST(Cat, EmptyInAnotherDimension) {
  EXPECT_EQ(cat({Tensor::zeros({2, 0}), Tensor::zeros({3, 0})}, 0).shape(), (Shape{5, 0}));
}

TEST(Cat, KeepsChannelsLastWhereAllAre) {
  const Tensor x = counting({2, 3, 4, 5}), last = x.contiguous(MemoryFormat::channels_last);
  for (int dim = 0; dim < 4; ++dim) {
    EXPECT_TRUE(cat({last, last}, dim).is_channels_last());
    EXPECT_TRUE(cat({last, x}, dim).is_contiguous());
    EXPECT_EQ(cat({last, last}, dim).to_vector<float>(), cat({x, x}, dim).to_vector<float>());
  }
  // [2, 1, 4, 5] is both; together with one that is not contiguous it counts as channels-last, by itself as contiguous.
  const Tensor both = counting({2, 1, 4, 5});
  EXPECT_TRUE(cat({both, last}, 1).is_channels_last());
  EXPECT_TRUE(cat({both, both}, 1).is_contiguous());
}

TEST(Cat, CopiesRatherThanViews) {
  const Tensor x = counting({3});
  Tensor result = cat({x}, 0);
  result.fill(9);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 2}));
}

TEST(Cat, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({2, 3});
  TANDEM_EXPECT_ERROR(cat(std::vector<Tensor>{}, 0), "cat: needs at least one tensor");
  TANDEM_EXPECT_ERROR(cat({x, Tensor::zeros({2, 4})}, 0), "tensor 1 has shape [2, 4], which differs from [2, 3]");
  TANDEM_EXPECT_ERROR(cat({x, Tensor::zeros({2})}, 0), "tensor 1 has shape [2]");
  TANDEM_EXPECT_ERROR(cat({x, x.to(DType::float64)}, 0), "tensor 1 is float64, the first is float32");
  TANDEM_EXPECT_ERROR(cat({x}, 2), "cat");
  TANDEM_EXPECT_ERROR(cat({Tensor::scalar(1)}, 0), "scalars");
}

}  // namespace
}  // namespace tandem::core
