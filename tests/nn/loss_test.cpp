#include "tandem/nn/loss.h"

#include <gtest/gtest.h>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/gradcheck.h"
#include "tests/errors.h"
#include "tests/golden/golden_file.h"

namespace tandem::nn {
namespace {

using autograd::Variable;
using core::Tensor;
using testing::expect_near;
using testing::GoldenFile;

const std::pair<const char*, Reduction> kReductions[] = {
    {"mean", Reduction::mean}, {"sum", Reduction::sum}, {"none", Reduction::none}};

void check_mse_and_bce(GoldenFile& file) {
  for (const std::string op : {"mse", "bce"}) {
    for (const auto& [reduction_name, reduction] : kReductions) {
      const std::string prefix = op + "." + reduction_name + ".";
      Variable x(file[prefix + "x"].clone(), true);
      const Tensor target = file[prefix + "target"];
      const Variable y = op == "mse" ? mse_loss(x, target, reduction) : bce_with_logits_loss(x, target, reduction);
      expect_near(y.data(), file[prefix + "y"], 1e-12, prefix + "y");
      y.backward({.gradient = file[prefix + "dy"]});
      expect_near(x.grad(), file[prefix + "dx"], 1e-12, prefix + "dx");
    }
  }
}

void check_nll(GoldenFile& file) {
  const Tensor target = Tensor::from(std::vector<std::int64_t>{3, 2, 1});
  Variable x(file["nll.x"].clone(), true), same(file["nll.x"].clone(), true);
  const Variable y = nll_loss(autograd::log_softmax(x, 1), target);
  expect_near(y.data(), file["nll.y"], 1e-12, "loss");
  y.backward();
  expect_near(x.grad(), file["nll.dx"], 1e-12, "gradient");
  const Variable in_one = cross_entropy(same, target);
  in_one.backward();
  expect_near(in_one.data(), y.data(), 1e-12, "cross-entropy");
  expect_near(same.grad(), x.grad(), 1e-12, "gradient of cross-entropy");
}

TEST(Loss, LikePyTorch) {
  GoldenFile file("losses.safetensors");
  check_mse_and_bce(file);
  check_nll(file);
  file.expect_all_read();
}

TEST(Loss, ShapesMustFit) {
  const Variable x(Tensor::zeros({3, 2}));
  EXPECT_EQ(testing::error_of([&] { mse_loss(x, Tensor::zeros({2})); }),
            "mse_loss: prediction [3, 2] and target [2] must have one shape");
  EXPECT_THROW(bce_with_logits_loss(x, Tensor::zeros({3, 1})), core::Error);
  EXPECT_THROW(nll_loss(x, Tensor::zeros({2}, {.dtype = core::DType::int64})), core::Error);
}

TEST(Loss, Gradients) {
  const Tensor target = Tensor::from(std::vector<double>{0.1, 0.9, 0.4, 0.6}, {2, 2});
  const std::vector<Variable> inputs{Variable(Tensor::from(std::vector<double>{0.3, -1.2, 2, 0.7}, {2, 2}), true)};
  for (const auto& [name, reduction] : kReductions) {
    const auto mse = [&, r = reduction](const std::vector<Variable>& in) { return mse_loss(in[0], target, r); };
    const auto bce = [&, r = reduction](const std::vector<Variable>& in) {
      return bce_with_logits_loss(in[0], target, r);
    };
    EXPECT_TRUE(autograd::gradcheck(mse, inputs).ok) << name;
    EXPECT_TRUE(autograd::gradcheck(bce, inputs).ok) << name;
  }
}

}  // namespace
}  // namespace tandem::nn
