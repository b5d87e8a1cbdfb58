#include "tandem/data/synthetic.h"

#include <cmath>

#include "tests/data/samples.h"

namespace tandem::data {
namespace {

using core::Shape;

TEST(Synthetic, IsAFunctionOfSeedAndIndex) {
  for (const Shape& shape : {Shape{3, 9, 11}, Shape{}, Shape{1}, Shape{5}, Shape{2, 3}, Shape{2, 3, 4, 5},
                             Shape{3, 0, 2}, Shape{3, 40, 40}}) {
    SCOPED_TRACE(shape.str());
    const Synthetic a({.size = 20, .sample_shape = shape, .classes = 3, .seed = 4}),
        b({.size = 20, .sample_shape = shape, .classes = 3, .seed = 4});
    const Synthetic other({.size = 20, .sample_shape = shape, .classes = 3, .seed = 5});
    const Batch all = a.read(range(20));
    ASSERT_EQ(all.input.rank(), shape.rank() + 1);
    const auto last = all.input.select(0, 19).to_vector<float>();
    EXPECT_EQ(b.read(std::vector<std::int64_t>{19}, {.seed = 9, .epoch = 9}).input.to_vector<float>(), last);
    EXPECT_EQ(all.target.to_vector<int>()[19], 1);
    if (last.empty()) continue;
    EXPECT_NE(other.read(std::vector<std::int64_t>{19}).input.to_vector<float>(), last);
    EXPECT_NE(all.input.select(0, 16).to_vector<float>(), last);  // of the same class
  }
}

// The nearest mean of the classes, taken from the first half, classifies the second.
TEST(Synthetic, CanBeLearned) {
  const Synthetic synthetic({.size = 400, .sample_shape = {1, 8, 8}, .classes = 10});
  const Batch batch = synthetic.read(range(400));
  const auto x = batch.input.to_vector<double>();
  const auto y = batch.target.to_vector<int>();
  std::vector<std::vector<double>> means(10, std::vector<double>(64));
  for (std::size_t i = 0; i < 200; ++i)
    for (std::size_t k = 0; k < 64; ++k) means[static_cast<std::size_t>(y[i])][k] += x[i * 64 + k] / 20;
  int right = 0;
  for (std::size_t i = 200; i < 400; ++i) {
    std::vector<double> distance(10);
    for (std::size_t c = 0; c < 10; ++c)
      for (std::size_t k = 0; k < 64; ++k) distance[c] += std::pow(x[i * 64 + k] - means[c][k], 2);
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == y[i];
  }
  EXPECT_GE(right, 190);
  // Noise: what is left when the class's mean is taken away has mean 0 and deviation 1.
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 200; ++i)
    for (std::size_t k = 0; k < 64; ++k) {
      const double rest = x[i * 64 + k] - means[static_cast<std::size_t>(y[i])][k];
      sum += rest;
      squares += rest * rest;
    }
  EXPECT_NEAR(sum / 12800, 0, 1e-6);
  EXPECT_NEAR(squares / 12800, 0.95, 0.03);  // 19/20: the mean was taken from the same 20 samples
}

TEST(Synthetic, WrongOptions) {
  expect_contains(error_of([] { Synthetic({.size = -1}); }), "synthetic: -1 samples");
  expect_contains(error_of([] { Synthetic({.size = std::int64_t{1} << 32}); }), "needed 0 to 2^32 - 1");
  expect_contains(error_of([] { Synthetic({.classes = 0}); }), "synthetic: 0 classes");
  expect_contains(error_of([] { Synthetic({.sample_shape = {1, 1, 1, 1, 1, 1}}); }), "leaves no dimension for N");
}

}  // namespace
}  // namespace tandem::data
