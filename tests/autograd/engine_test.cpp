// The engine's contract, one test a line.
#include "tandem/autograd/engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "tandem/autograd/grad_mode.h"
#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/allocator.h"
#include "tests/errors.h"

namespace tandem::autograd {
namespace {

Variable leaf(double value) { return Variable(Tensor::scalar(value, DType::float64), true); }
Variable vector_leaf(std::vector<double> values) { return Variable(Tensor::from(values), true); }

using testing::error_of;

// An operator that tells when backward passes it.
Variable traced(const Variable& x, std::vector<std::string>& log, std::string name) {
  return record("traced", core::Tensor(x.data()), {x}, [&log, name](Tensor dy, Gradients& dx) {
    log.push_back(name);
    dx.add(0, dy);
  });
}

TEST(Engine, MicrogradReadmeGraph) {
  Variable a = leaf(-4.0), b = leaf(2.0);
  Variable c = a + b;
  Variable d = a * b + pow(b, 3);
  c = c + (c + 1.0);
  c = c + (1.0 + c + (-a));
  d = d + (d * 2.0 + relu(b + a));
  d = d + (3.0 * d + relu(b - a));
  Variable e = c - d;
  Variable f = square(e);
  Variable g = f / 2.0;
  g = g + 10.0 / f;
  g.backward();
  EXPECT_NEAR(g.data().item(), 24.7041, 5e-5);
  EXPECT_NEAR(a.grad().item(), 138.8338, 5e-5);
  EXPECT_NEAR(b.grad().item(), 645.5773, 5e-5);
}

TEST(Engine, Contract01_LeafAccumulatesOnceThenHooksRunInOrderOnTheThreadOfBackward) {
  Variable x = leaf(3);
  std::vector<std::string> log;
  std::vector<double> seen;
  const auto first = x.register_post_accumulate_grad_hook([&](const Variable& v) {
    log.push_back("first");
    seen.push_back(v.grad().item());
  });
  std::thread::id thread;
  const auto second = x.register_post_accumulate_grad_hook([&](const Variable&) {
    log.push_back("second");
    thread = std::this_thread::get_id();
  });
  (x * x + x * 2.0 + x).backward();  // four contributions: 3 + 3 + 2 + 1
  EXPECT_EQ(log, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(seen, std::vector<double>{9});
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST(Engine, Contract02_NodesRunInReverseOrderOfCreationAmongThoseReady) {
  std::vector<std::string> log;
  Variable x = leaf(1);
  Variable a = traced(x, log, "a"), b = traced(x, log, "b"), c = traced(a, log, "c"), d = traced(b, log, "d");
  (d + c + a).backward();  // the sum's operands come in another order than they were made
  EXPECT_EQ(log, (std::vector<std::string>{"d", "c", "b", "a"}));
}

TEST(Engine, Contract03_LeafOutsideTheGraphIsLeftAlone) {
  Variable x = leaf(2), outside = leaf(5), never = leaf(7);
  outside.set_grad(Tensor::scalar(11, DType::float64));
  int calls = 0;
  const auto hook = outside.register_post_accumulate_grad_hook([&](const Variable&) { ++calls; });
  (x * x).backward();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(outside.grad().item(), 11);
  EXPECT_FALSE(never.grad().defined());
}

struct Observer final : BackwardObserver {
  std::vector<std::string>* log;
  std::vector<Variable> reached;
  std::function<void(BackwardPass&)> on_begin;
  int calls = 0;

  explicit Observer(std::vector<std::string>* l = nullptr) : log(l) {}
  void backward_begins(BackwardPass& pass, std::span<const Variable> leaves) override {
    ++calls;
    reached.assign(leaves.begin(), leaves.end());
    if (log) log->push_back("begin");
    if (on_begin) on_begin(pass);
  }
};

TEST(Engine, Contract04_ObserversOnceBeforeTheFirstNodeCallbacksOnceAfterTheLast) {
  std::vector<std::string> log;
  Variable x = leaf(1), y = leaf(2), unreached = leaf(3);
  Observer observer(&log);
  BackwardPass* pass_seen = nullptr;
  observer.on_begin = [&](BackwardPass& pass) {
    pass_seen = &pass;
    pass.at_end([&] {
      log.push_back("end");
      pass.at_end([&] { log.push_back("end from a callback"); });
    });
  };
  std::vector<Registration> registrations;
  for (const Variable* v : {&x, &y, &unreached}) registrations.push_back(v->observe_backward(observer));
  registrations.push_back(x.register_post_accumulate_grad_hook(
      [&](const Variable&) { pass_seen->at_end([&] { log.push_back("end from a hook"); }); }));
  (traced(x, log, "node") * y + x).backward();
  EXPECT_EQ(log, (std::vector<std::string>{"begin", "node", "end", "end from a hook", "end from a callback"}));
  ASSERT_EQ(observer.reached.size(), 2u);
  EXPECT_TRUE((observer.reached[0].is(x) && observer.reached[1].is(y)) ||
              (observer.reached[0].is(y) && observer.reached[1].is(x)));

  EXPECT_NE(error_of([&] { (void)x.observe_backward(observer); }).find("already watches"), std::string::npos);

  // A backward that reaches none of its leaves is none of its business.
  Variable other = leaf(4);
  (other * other).backward();
  EXPECT_EQ(observer.calls, 1);
}

TEST(Engine, Contract04_AnExceptionClearsCallbacksAndLeavesTheEngineUsable) {
  Variable x = leaf(3);
  Observer observer;
  int ends = 0;
  observer.on_begin = [&](BackwardPass& pass) { pass.at_end([&] { ++ends; }); };
  const auto observed = x.observe_backward(observer);
  {
    const auto hook = x.register_post_accumulate_grad_hook([](const Variable&) { core::fail("a hook's own error"); });
    EXPECT_EQ(error_of([&] { (x * x).backward(); }), "a hook's own error");
  }
  EXPECT_EQ(ends, 0);
  const auto failing = [&](const Variable& v) {
    return record("failing", Tensor(v.data()), {v}, [](Tensor, Gradients&) { core::fail("no gradient today"); });
  };
  Variable shared = x * x;
  EXPECT_EQ(error_of([&] { (failing(shared) + shared).backward(); }), "backward of failing: no gradient today");
  EXPECT_EQ(ends, 0);
  x.set_grad({});
  (x * x).backward();
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(Engine, Contract05_AGradientSharesNoElementWithAnotherVariables) {
  Variable a = vector_leaf({1, 2}), b = vector_leaf({3, 4}), c = vector_leaf({5, 6});
  sum(a + b + c).backward();
  for (const auto& [p, q] : {std::pair{&a, &b}, {&b, &c}, {&a, &c}})
    EXPECT_FALSE(p->grad().storage() == q->grad().storage());
  // The root's own gradient, given by the caller, is not taken over either.
  Variable x = vector_leaf({1, 2});
  Tensor given = Tensor::from(std::vector<double>{1, 1});
  reshape(x, {2}).backward({.gradient = given});
  given.fill(9);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST(Engine, Contract05_WithADestinationTheGradientLiesThere) {
  Tensor memory = Tensor::full({2, 4}, 77, {.dtype = DType::float64});
  Variable weight(Tensor::from(std::vector<double>{1, 2, 3, 4}, {2, 2}), true);
  Variable bias = vector_leaf({0, 0});
  Tensor slot = memory.slice(1, 1, 3);  // strided
  const auto owner = weight.set_gradient_destination(slot);
  Variable x(Tensor::from(std::vector<double>{1, 10}, {1, 2}));
  const auto run = [&] { sum(linear(x, weight, bias)).backward(); };
  run();  // overwrites the stale 77
  EXPECT_TRUE(weight.grad().is_same_view(slot));
  EXPECT_EQ(slot.to_vector<double>(), (std::vector<double>{1, 10, 1, 10}));
  run();  // adds
  EXPECT_EQ(slot.to_vector<double>(), (std::vector<double>{2, 20, 2, 20}));
  weight.set_grad({});
  run();  // none again: overwrites
  EXPECT_EQ(slot.to_vector<double>(), (std::vector<double>{1, 10, 1, 10}));
  weight.set_grad(Tensor::full({2, 2}, 5, {.dtype = DType::float64}));
  run();  // the user's own tensor is taken over by value
  EXPECT_TRUE(weight.grad().is_same_view(slot));
  EXPECT_EQ(slot.to_vector<double>(), (std::vector<double>{6, 15, 6, 15}));
  // Not one element beside the slot was touched.
  EXPECT_EQ(memory.select(1, 0).to_vector<double>(), (std::vector<double>{77, 77}));
  EXPECT_EQ(memory.select(1, 3).to_vector<double>(), (std::vector<double>{77, 77}));
  TANDEM_EXPECT_ERROR((void)weight.set_gradient_destination(slot), "already has one");
  TANDEM_EXPECT_ERROR((void)bias.set_gradient_destination(slot), "memory float64 [2, 2] for a leaf float64 [2]");
}

TEST(Engine, Contract05_SeveralContributionsMeetInTheDestination) {
  Variable w(Tensor::from(std::vector<double>{1, 2}, {1, 2}), true);
  Tensor memory = Tensor::full({1, 2}, 99, {.dtype = DType::float64});
  const auto owner = w.set_gradient_destination(memory);
  Variable x(Tensor::from(std::vector<double>{3, 4}, {1, 2}));
  Variable y = linear(x, w, {}) + linear(x, w, {}) + sum(w * w);
  sum(y).backward();
  EXPECT_EQ(memory.to_vector<double>(), (std::vector<double>{3 + 3 + 2, 4 + 4 + 4}));
}

TEST(Engine, Contract06_AnInPlaceChangeToASavedTensorIsDetectedAndNamesTheOperator) {
  Variable x = vector_leaf({1, 2});
  Variable y = exp(x);
  Tensor(y.data()).fill(0);
  const std::string error = error_of([&] { sum(y).backward(); });
  EXPECT_NE(error.find("backward of exp: a tensor of shape [2]"), std::string::npos) << error;
  EXPECT_NE(error.find("changed in place"), std::string::npos) << error;
  // What is not saved may change.
  Variable z = x + 1.0;
  Tensor(z.data()).fill(0);
  EXPECT_NO_THROW(sum(z).backward());
}

TEST(Engine, Contract07_AMillionNodesInAChain) {
  Variable x = leaf(1);
  Variable y = x;
  for (int i = 0; i < 1'000'000; ++i) y = add_scalar(y, 1e-6);
  y.backward();
  EXPECT_EQ(x.grad().item(), 1);
  EXPECT_NEAR(y.data().item(), 2, 1e-6);
  y = {};  // destroyed without recursion
}

TEST(Engine, Contract08_ASecondBackwardThroughAFreedGraphIsAClearError) {
  Variable x = leaf(3);
  Variable y = x * x;
  Variable z = y + 1.0;
  z.backward({.gradient = {}, .retain_graph = true});
  z.backward({});
  EXPECT_EQ(x.grad().item(), 12);
  const std::string error = error_of([&] { z.backward(); });
  EXPECT_NE(error.find("freed by an earlier backward"), std::string::npos) << error;
  EXPECT_NE(error.find("retain_graph"), std::string::npos) << error;
  // Also where only an inner part was freed, and before anything is accumulated.
  TANDEM_EXPECT_ERROR((y * 2.0 + x).backward(), "freed");
  EXPECT_EQ(x.grad().item(), 12);
}

TEST(Engine, Contract09_NoGradGuardRecordsAndSavesNothing) {
  Variable x = vector_leaf({1, 2});
  const NoGradGuard no_grad;
  Tensor data = x.data();
  Variable y = exp(x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.is_leaf());
  EXPECT_TRUE(y.data().is_unique());  // nobody kept the output
}

TEST(Engine, Contract10_SavedTensorsAreFreedAsBackwardPassesThem) {
  constexpr std::int64_t kElements = 1 << 16;
  constexpr int kLayers = 20;
  Variable x(Tensor::full({kElements}, 0.5, {.dtype = DType::float64}), true);
  std::vector<std::size_t> in_use;
  Variable y = x;
  for (int i = 0; i < kLayers; ++i) {
    y = record("probe", Tensor(y.data()), {y}, [&in_use](Tensor dy, Gradients& dx) {
      in_use.push_back(core::allocator(core::default_device()).statistics().in_use);
      dx.add(0, std::move(dy));
    });
    y = exp(mul_scalar(y, 0.1));  // saves its output
  }
  Variable loss = sum(y);
  y = {};
  loss.backward();
  ASSERT_EQ(in_use.size(), static_cast<std::size_t>(kLayers));
  const std::size_t freed = in_use.front() - in_use.back();
  EXPECT_GE(freed, (kLayers - 2) * kElements * sizeof(double));
}

TEST(Engine, ErrorsNameWhatIsWrong) {
  Variable x = vector_leaf({1, 2});
  TANDEM_EXPECT_ERROR((x * 2.0).backward(), "a root of shape [2] needs a gradient");
  TANDEM_EXPECT_ERROR(Variable(Tensor::scalar(1)).backward(), "depends on nothing");
  TANDEM_EXPECT_ERROR((x * 2.0).backward({.gradient = Tensor::zeros({3}, {.dtype = DType::float64})}), "[3]");
  TANDEM_EXPECT_ERROR(Variable(Tensor::arange(3), true), "int64");
}

TEST(Engine, ALeafAsRootAndAnInputUsedTwice) {
  Variable x = leaf(5);
  x.backward();
  EXPECT_EQ(x.grad().item(), 1);
  (x * x).backward();
  EXPECT_EQ(x.grad().item(), 11);
}

TEST(Engine, BroadcastGradientsAreSummed) {
  Variable a(Tensor::full({3, 1}, 2, {.dtype = DType::float64}), true),
      b(Tensor::full({4}, 5, {.dtype = DType::float64}), true);
  sum(a * b).backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{20, 20, 20}));
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{6, 6, 6, 6}));
}

TEST(Engine, ARuleThatGivesNoGradientLeavesTheLeafWithoutOneAndRunsNoHook) {
  Variable x = leaf(1), y = leaf(2);
  int calls = 0;
  const auto hook = x.register_post_accumulate_grad_hook([&](const Variable&) { ++calls; });
  Variable silent = record("silent", Tensor::scalar(1, DType::float64), {exp(x)}, [](Tensor, Gradients&) {});
  (silent + y).backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(y.grad().item(), 1);
}

TEST(Engine, RegistrationsUnregisterThemselves) {
  Variable x = leaf(1);
  int calls = 0;
  {
    const auto hook = x.register_post_accumulate_grad_hook([&](const Variable&) { ++calls; });
    (x * x).backward();
  }
  (x * x).backward();
  EXPECT_EQ(calls, 1);
  // A hook may drop registrations, its own among them, while hooks run.
  Registration own = x.register_post_accumulate_grad_hook([&](const Variable&) {
    ++calls;
    own.remove();
  });
  (x * x).backward();
  (x * x).backward();
  EXPECT_EQ(calls, 2);
}

TEST(Engine, GraphsOfDifferentThreadsAreIndependent) {
  std::vector<std::thread> ranks;
  std::vector<double> gradients(4);
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([rank, &gradients] {
      Variable x = leaf(rank);
      for (int i = 0; i < 200; ++i) {
        x.set_grad({});
        sum(x * x * 3.0).backward();
      }
      gradients[static_cast<std::size_t>(rank)] = x.grad().item();
    });
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(gradients, (std::vector<double>{0, 6, 12, 18}));
}

TEST(Variable, RefusesContentsAndHooksThatCannotWork) {
  Variable x(Tensor::zeros({2}), /*requires_grad=*/true);
  EXPECT_NE(error_of([&] { x.set_data(Tensor()); }).find("undefined"), std::string::npos);
  EXPECT_NE(error_of([&] { x.set_data(Tensor::arange(2)); }).find("int64 has no gradient"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)x.register_post_accumulate_grad_hook({}); }).find("empty"), std::string::npos);
  EXPECT_EQ(x.shape(), (core::Shape{2}));
}

}  // namespace
}  // namespace tandem::autograd
