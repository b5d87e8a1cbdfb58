#include "tandem/core/tensor.h"

#include <gtest/gtest.h>

namespace tandem::core {
namespace {

TEST(Tensor, ViewsShareMemory) {
  Tensor t = Tensor::arange(6, DType::float32).reshape({2, 3});
  Tensor view = t.transpose(0, 1);
  EXPECT_EQ(view.shape(), (Shape{3, 2}));
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  view.fill(7);
  EXPECT_EQ(t.to_vector<float>(), std::vector<float>(6, 7));
}

}  // namespace
}  // namespace tandem::core
