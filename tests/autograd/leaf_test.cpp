// A leaf's gradient where its place is unusual: a destination that came late, one leaf for two inputs, memory that
// repeats.
#include "tandem/autograd/leaf.h"

#include <gtest/gtest.h>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/ops/random_fill.h"
#include "tandem/core/traffic.h"
#include "tests/errors.h"

namespace tandem::autograd {
namespace {

Tensor uniform(const Shape& shape) {
  Tensor tensor = Tensor::empty(shape, {.dtype = DType::float64});
  core::fill_uniform(tensor, -1, 1, core::RandomContext{.seed = 5}.stream(1));
  return tensor;
}

using testing::error_of;

// Gives the leaf its destination at the beginning of a backward, as who plans buckets anew does.
struct LateOwner : BackwardObserver {
  Variable leaf;
  Tensor memory;
  Registration destination;
  void backward_begins(BackwardPass&, std::span<const Variable>) override {
    destination = leaf.set_gradient_destination(memory);
  }
};

TEST(Leaf, AGradientMovesToADestinationThatCameAfterTheBeginning) {
  for (const bool through_memory : {false, true}) {  // rules that add() and rules that write()
    const Tensor x = uniform({4, 3});
    const auto loss = [&](const Variable& w) {
      return through_memory ? sum(linear(Variable(x), w, {})) : sum(w * 2.0);
    };
    Variable w(uniform({2, 3}), true);
    loss(w).backward();
    const std::vector<double> once = w.grad().to_vector<double>();
    LateOwner owner;
    owner.leaf = w;
    owner.memory = Tensor::full({2, 3}, 100, {.dtype = DType::float64});
    const Registration observed = w.observe_backward(owner);
    Tensor seen;
    const Registration hook = w.register_post_accumulate_grad_hook([&](const Variable& leaf) { seen = leaf.grad(); });
    loss(w).backward();
    EXPECT_TRUE(seen.is_same_view(owner.memory));
    const std::vector<double> twice = seen.to_vector<double>();
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_DOUBLE_EQ(twice[i], 2 * once[i]) << i;
  }
}

TEST(Leaf, HooksThatAskToBeLastRunAfterThoseThatCameLater) {
  Variable w(uniform({2, 3}), true);
  std::string order;
  const auto note = [&](char name) { return [&order, name](const Variable&) { order += name; }; };
  const Registration a = w.register_post_accumulate_grad_hook(note('a'));
  Registration x = w.register_post_accumulate_grad_hook(note('x'), HookTurn::last);
  const Registration y = w.register_post_accumulate_grad_hook(note('y'), HookTurn::last);
  const Registration b = w.register_post_accumulate_grad_hook(note('b'));
  sum(w).backward();
  EXPECT_EQ(order, "abxy");
  x.remove();
  const Registration c = w.register_post_accumulate_grad_hook(note('c'));
  order.clear();
  sum(w).backward();
  EXPECT_EQ(order, "abcy");
}

TEST(Leaf, CopiesIntoADestinationAreCounted) {
  Variable w(uniform({2, 3}), true);
  const Registration destination = w.set_gradient_destination(Tensor::zeros({2, 3}, {.dtype = DType::float64}));
  const Tensor x = uniform({4, 3});
  const auto copied_by = [&](const Variable& loss) {
    const std::int64_t before = core::traffic.copied;
    loss.backward();
    return core::traffic.copied - before;
  };
  EXPECT_EQ(copied_by(sum(linear(Variable(x), w, {}))), 0);  // its kernel writes there
  EXPECT_EQ(copied_by(sum(linear(Variable(x), w, {}))), 0);  // and adds there
  w.set_grad({});
  EXPECT_EQ(copied_by(sum(w * 2.0)), 48);
  w.set_grad(uniform({2, 3}));
  EXPECT_EQ(copied_by(sum(linear(Variable(x), w, {}))), 48);  // taken over
}

TEST(Leaf, MayBeTwoInputsOfAnOperatorThatWritesBothGradients) {
  const Variable x(uniform({8, 3}));
  const auto loss = [&](const Variable& weight, const Variable& bias) {
    return sum(square(batch_norm_training(x, weight, bias, 1e-5)));
  };
  Variable a(uniform({3}), true), b(a.data().clone(), true);
  loss(a, b).backward();
  for (const bool has_destination : {false, true})
    for (const int passes : {1, 2}) {  // the second adds
      Variable both(a.data().clone(), true);
      Registration destination;
      if (has_destination) destination = both.set_gradient_destination(Tensor::full({3}, 7, {.dtype = DType::float64}));
      for (int i = 0; i < passes; ++i) loss(both, both).backward();
      for (std::int64_t c = 0; c < 3; ++c)
        EXPECT_NEAR(both.grad().select(0, c).item(),
                    passes * (a.grad().select(0, c).item() + b.grad().select(0, c).item()), 1e-12);
    }
}

TEST(Leaf, ADestinationMustNotRepeatMemory) {
  const Variable w(uniform({4}), true);
  const Tensor repeated = Tensor::zeros({1}, {.dtype = DType::float64}).expand({4});
  EXPECT_NE(error_of([&] {
              const auto r = w.set_gradient_destination(repeated);
            }).find("set_gradient_destination: cannot write"),
            std::string::npos);
}

TEST(Leaf, ClassWeightsThatChangedSinceForwardAreNoticed) {
  const Variable logits(uniform({2, 3}), true);
  core::CrossEntropyOptions options{.class_weights = Tensor::full({3}, 1, {.dtype = DType::float64})};
  const Variable loss = cross_entropy(logits, Tensor::from<std::int64_t>({0, 2}), options);
  options.class_weights.fill(2);
  EXPECT_NE(error_of([&] { loss.backward(); }).find("backward of cross_entropy: a tensor of shape [3]"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem::autograd
