// Parameters that cannot be walked as flat arrays, or that changed how they lie.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "tandem/optim/adam.h"
#include "tandem/optim/sgd.h"
#include "tests/errors.h"

namespace tandem::optim {
namespace {

using core::DType;

using testing::error_of;

std::unique_ptr<Optimizer> make(bool adam, const std::vector<Variable>& parameters) {
  if (adam) return std::make_unique<Adam>(parameters, AdamOptions{.lr = 0.1});
  return std::make_unique<Sgd>(parameters, SgdOptions{.lr = 0.1, .momentum = 0.9});
}

TEST(Layouts, AParameterWithGapsOrRepeatsIsAnErrorAndWritesNothing) {
  for (const bool adam : {false, true})
    for (const bool repeats : {false, true}) {
      Tensor whole = Tensor::zeros({4, 4});
      const Tensor part = repeats ? whole.slice(1, 0, 1).expand({4, 4}) : whole.slice(1, 0, 2);
      Variable good(Tensor::zeros({2}), true), bad(part, true);
      good.set_grad(Tensor::full({2}, 1));
      bad.set_grad(Tensor::full(part.shape(), 1));
      const auto optimizer = make(adam, {good, bad});
      EXPECT_NE(error_of([&] { optimizer->step(); }).find("parameter 1 of shape [4, "), std::string::npos);
      EXPECT_EQ(whole.to_vector<float>(), std::vector<float>(16));
      EXPECT_EQ(good.data().to_vector<float>(), std::vector<float>(2));
      EXPECT_TRUE(optimizer->state_dict().empty());
    }
}

TEST(Layouts, AParameterOfAnotherDtypeIsAnErrorNotSkipped) {
  for (const bool adam : {false, true}) {
    Variable w(Tensor::zeros({2}, {.dtype = DType::bfloat16}), true);
    const auto optimizer = make(adam, {w});
    optimizer->step();  // no gradient: nothing is asked of it
    w.set_grad(Tensor::full({2}, 1, {.dtype = DType::bfloat16}));
    EXPECT_NE(error_of([&] { optimizer->step(); }).find("parameter 0 of shape [2] is bfloat16"), std::string::npos);
  }
}

// The state follows where set_data gave a parameter another layout or dtype.
TEST(Layouts, StateFollowsTheParametersLayout) {
  const auto train = [](bool adam, const std::function<Tensor(const Tensor&)>& change) {
    Variable w(Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}), true);
    const auto optimizer = make(adam, {w});
    for (int step = 0; step < 3; ++step) {
      if (step == 1) w.set_data(change(w.data()));
      w.set_grad(Tensor::from<float>({1, -2, 3, -4, 5, -6}, {2, 3}).to(w.dtype()));
      optimizer->step();
    }
    return w.data().to_vector<double>();
  };
  for (const bool adam : {false, true}) {
    const auto wanted = train(adam, [](const Tensor& t) { return t.clone(); });
    const auto transposed = train(adam, [](const Tensor& t) { return t.transpose(0, 1).contiguous().transpose(0, 1); });
    const auto wide = train(adam, [](const Tensor& t) { return t.to(DType::float64); });
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_FLOAT_EQ(static_cast<float>(transposed[i]), static_cast<float>(wanted[i])) << i;
      EXPECT_NEAR(wide[i], wanted[i], 1e-5) << i;
    }
  }
}

}  // namespace
}  // namespace tandem::optim
