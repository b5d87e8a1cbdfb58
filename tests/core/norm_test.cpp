// Sums of squares of many tensors, and scaling them, against naive references in float64.
#include "tandem/core/ops/norm.h"

#include <gtest/gtest.h>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;
using tandem::testing::error_of;

// Several pieces and blocks, memory orders, gaps.
std::vector<Tensor> large_tensors(DType dtype) {
  const auto make = [&](const Shape& shape) { return random_tensor(shape, dtype, 21, -1, 2); };
  return {make({300001}), make({3, 300, 203}).slice(2, 1, 202),
          make({5, 40, 31, 33}).contiguous(MemoryFormat::channels_last), make({400001}).slice(0, 0, 400001, 3)};
}

std::vector<Tensor> all_tensors() {
  std::vector<Tensor> all;
  for (const DType dtype : kFloating)
    for (const auto& some : {awkward_tensors(dtype), large_tensors(dtype)})
      all.insert(all.end(), some.begin(), some.end());
  return all;
}

double naive_sum(const Tensor& x) {
  double sum = 0;
  for (const double v : x.to_vector<double>()) sum += v * v;
  return sum;
}

TEST(Norm, SumOfSquaresOfOneAndOfMany) {
  const std::vector<Tensor> all = all_tensors();
  double wanted = 0;
  for (const Tensor& x : all) {
    const Tensor sum = sum_of_squares(x);
    ASSERT_EQ(sum.dtype(), DType::float64);
    ASSERT_EQ(sum.shape(), Shape{});
    EXPECT_NEAR(sum.item(), naive_sum(x), 1e-12 * naive_sum(x)) << describe(x);
    wanted += naive_sum(x);
  }
  EXPECT_NEAR(sum_of_squares(all).item(), wanted, 1e-12 * wanted);
  EXPECT_EQ(sum_of_squares(std::vector<Tensor>()).item(), 0);
  EXPECT_EQ(sum_of_squares(Tensor::full({2}, 1e30)).item(), 2 * std::pow(double{1e30f}, 2)) << "float would overflow";
  EXPECT_TRUE(std::isnan(sum_of_squares(Tensor::full({2}, kNan)).item()));
}

TEST(Norm, SameBitsForAnyNumberOfThreads) {
  const std::vector<Tensor> all = all_tensors();
  const auto run = [&] { return sum_of_squares(all).item(); };
  const double alone = with_threads(1, run);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(with_threads(threads, run), alone) << threads;
}

TEST(Norm, ScaleWritesTheElementsAndNothingElse) {
  for (const double factor : {0.25, 1.0, 0.0}) {
    std::vector<Tensor> all;
    for (const DType dtype : kFloating)
      for (const Layout layout : kLayouts)
        for (const Shape& shape : {Shape{2, 3, 4, 5}, {70001}, {7}, {}, {0, 4}})
          all.push_back(laid_out(random_tensor(shape, dtype), layout));
    std::vector<std::vector<double>> wanted;
    for (const Tensor& x : all) {
      wanted.push_back(x.to_vector<double>());
      for (double& value : wanted.back()) value *= factor;
    }
    scale(all, Tensor::scalar(factor, DType::float64));
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].to_vector<double>(), wanted[i]) << describe(all[i]);
  }
  Tensor whole = Tensor::full({2, 6}, 5);
  std::vector<Tensor> part{whole.slice(1, 0, 6, 2)};
  scale(part, Tensor::scalar(2, DType::float64));
  EXPECT_EQ(whole.to_vector<float>(), (std::vector<float>{10, 5, 10, 5, 10, 5, 10, 5, 10, 5, 10, 5}));
  scale({}, Tensor::scalar(2, DType::float64));
}

TEST(Norm, Errors) {
  const Tensor one = Tensor::scalar(1, DType::float64);
  std::vector<Tensor> ints{Tensor::zeros({2}), Tensor::arange(3)}, none{Tensor()},
      repeated{Tensor::zeros({3, 1}).expand({3, 2})}, fine{Tensor::zeros({2})};
  EXPECT_EQ(error_of([&] { sum_of_squares(ints); }),
            "sum_of_squares: needs float32, float64 or bfloat16, tensor 1 is int64 [3]");
  EXPECT_EQ(error_of([&] { sum_of_squares(none); }), "sum_of_squares: tensor 0 is undefined");
  EXPECT_EQ(error_of([&] { scale(ints, one); }), "scale: needs float32, float64 or bfloat16, tensor 1 is int64 [3]");
  TANDEM_EXPECT_ERROR(scale(repeated, one), "scale: cannot write in place to [3, 2]");
  EXPECT_EQ(error_of([&] { scale(fine, Tensor::zeros({2})); }),
            "scale: the factor must be float64 [], got float32 [2]");
  EXPECT_EQ(error_of([&] { scale(fine, {}); }), "scale: the factor must be float64 [], got none");
}

}  // namespace
}  // namespace tandem::core
