// One leaf in several places of one operator gets the sum of what distinct leaves would get.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/ops/binary.h"
#include "tests/autograd/operator_cases.h"
#include "tests/errors.h"

namespace tandem::autograd::testing {
namespace {

using tandem::testing::error_of;

/// Where the leaf's gradient goes: to memory that the engine makes, or to a destination.
enum class Place { own, destination };

/// How a rule hands over the gradients of its three inputs: the inputs in the order of the calls. Once: add(); twice:
/// memory() and then commit().
using Calls = std::vector<std::size_t>;

std::string describe(const Calls& calls, bool written_late, Place place) {
  return fmt::format("calls for inputs {}, written {}{}", fmt::join(calls, " "),
                     written_late ? "before commit" : "after memory",
                     place == Place::own ? "" : ", with a destination");
}

// Input i gets the gradient 10^i.
Variable hand_over(const std::vector<Variable>& inputs, Calls calls, bool written_late) {
  return record("hand_over", Tensor::zeros({2}), inputs,
                [calls = std::move(calls), written_late](Tensor, Gradients& dx) {
                  const auto gradient = [](std::size_t input) { return Tensor::full({2}, std::pow(10, input)); };
                  const auto write = [&](std::size_t input, GradientMemory& memory) {
                    const Tensor before = memory.accumulate ? memory.tensor.clone() : Tensor::zeros({2});
                    memory.tensor.copy_from(core::add(before, gradient(input)));
                  };
                  std::map<std::size_t, GradientMemory> lent;
                  for (const std::size_t input : calls) {
                    const int position = static_cast<int>(input);
                    if (std::count(calls.begin(), calls.end(), input) == 1) {
                      dx.add(position, gradient(input));
                    } else if (!lent.count(input)) {
                      lent[input] = dx.memory(position);
                      if (!written_late) write(input, lent[input]);
                    } else {
                      if (written_late) write(input, lent[input]);
                      dx.commit(position, lent[input]);
                    }
                  }
                });
}

TEST(SharedLeaf, AnyOrderOfAddMemoryAndCommitGivesTheSum) {
  for (const Calls& kinds : {Calls{0, 1, 2}, {0, 1, 2, 2}, {0, 1, 1, 2, 2}, {0, 0, 1, 1, 2, 2}}) {
    Calls calls = kinds;
    do {
      for (const bool written_late : {false, true})
        for (const Place place : {Place::own, Place::destination}) {
          const Variable leaf(Tensor::zeros({2}), true);
          Tensor destination = Tensor::full({2}, 1e30);
          Registration owner;
          if (place == Place::destination) owner = leaf.set_gradient_destination(destination);
          for (const float wanted : {111.F, 222.F}) {  // the second backward adds
            sum(hand_over({leaf, leaf, leaf}, calls, written_late)).backward();
            ASSERT_EQ(leaf.grad().to_vector<float>(), (std::vector<float>{wanted, wanted}))
                << describe(calls, written_late, place);
          }
          EXPECT_EQ(leaf.grad().is_same_view(destination), place == Place::destination);
        }
    } while (std::next_permutation(calls.begin(), calls.end()));
  }
}

TEST(SharedLeaf, MemoryThatIsNotCommittedIsAnError) {
  const Variable leaf(Tensor::zeros({2}), true);
  const Variable y = record("forgetful", Tensor::zeros({2}), {leaf, leaf}, [](Tensor dy, Gradients& dx) {
    dx.add(1, std::move(dy));
    (void)dx.memory(0);
  });
  EXPECT_EQ(error_of([&] { sum(y).backward(); }),
            "backward: a rule asked for memory() of the leaf of shape [2] and did not commit() it");
  sum(leaf).backward();  // the next backward is not disturbed
  EXPECT_EQ(leaf.grad().to_vector<float>(), (std::vector<float>{1, 1}));
}

/// Inputs of a case that one leaf can stand for, by their first: those of one shape.
std::map<std::size_t, std::vector<std::size_t>> groups_of(const OperatorCase& c) {
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    std::size_t first = 0;
    while (c.inputs[first].shape != c.inputs[i].shape) ++first;
    groups[first].push_back(i);
  }
  std::erase_if(groups, [](const auto& group) { return group.second.size() < 2; });
  return groups;
}

bool is_large(const OperatorCase& c) {
  return std::any_of(c.inputs.begin(), c.inputs.end(), [](const auto& spec) { return core::numel(spec.shape) > 2000; });
}

struct Run {
  const OperatorCase& c;
  DType dtype;

  /// `merged`: one leaf stands for all inputs of these positions.
  Inputs inputs(const std::vector<std::size_t>& group, bool merged) const {
    Inputs made;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const bool is_member = std::find(group.begin(), group.end(), i) != group.end();
      InputSpec spec = c.inputs[is_member ? group.front() : i];
      for (const std::size_t member : group) spec.positive = spec.positive || (is_member && c.inputs[member].positive);
      const int seed = static_cast<int>(is_member ? group.front() : i);
      made.push_back(is_member && merged && i != group.front()
                         ? made[group.front()]
                         : Variable(arranged(make_values(spec, seed).to(dtype), spec.layout), true));
    }
    return made;
  }

  void backward(const Inputs& inputs) const {
    const Variable y = c.function(inputs);
    y.backward({.gradient = make_values({y.shape()}, 99).to(y.dtype())});
  }
};

std::vector<double> sum_of_gradients(const Inputs& inputs, const std::vector<std::size_t>& group) {
  std::vector<double> total(static_cast<std::size_t>(inputs[group.front()].data().numel()));
  for (const std::size_t member : group) {
    const std::vector<double> one = inputs[member].grad().to_vector<double>();
    std::transform(one.begin(), one.end(), total.begin(), total.begin(), std::plus<>());
  }
  return total;
}

void expect_sum(const Run& run, const std::vector<std::size_t>& group, Place place) {
  const Inputs apart = run.inputs(group, false), merged = run.inputs(group, true);
  run.backward(apart);
  std::vector<double> wanted = sum_of_gradients(apart, group);
  const Variable& leaf = merged[group.front()];
  Registration owner;
  if (place == Place::destination)
    owner = leaf.set_gradient_destination(Tensor::full(leaf.shape(), 1e30, {.dtype = run.dtype}));
  for (const int passes : {1, 2}) {
    run.backward(merged);
    const Tensor all = Tensor::from(wanted, leaf.shape());
    const double scale = std::max(1., largest_magnitude(all)), tolerance = run.dtype == DType::float64 ? 1e-12 : 3e-6;
    std::vector<double> once = leaf.grad().to_vector<double>();
    for (double& value : once) value /= passes;
    EXPECT_LE(largest_difference(Tensor::from(once, leaf.shape()), all), tolerance * scale)
        << run.c.op << "." << run.c.name << ", input " << group.front() << " in " << group.size() << " places, pass "
        << passes << (place == Place::own ? "" : ", with a destination");
  }
}

TEST(SharedLeaf, EveryOperatorOfSeveralVariablesGivesTheSumOfDistinctLeaves) {
  std::set<std::string> of_several, shared;
  for (const OperatorCase& c : operator_cases()) {
    if (c.inputs.size() < 2 || c.op.starts_with("operator")) continue;  // a + b is add(a, b)
    of_several.insert(c.op);
    if (is_large(c)) continue;
    for (const auto& [first, group] : groups_of(c)) {
      shared.insert(c.op);
      for (const DType dtype : {DType::float64, DType::float32})
        for (const Place place : {Place::own, Place::destination}) expect_sum({c, dtype}, group, place);
    }
  }
  EXPECT_GT(of_several.size(), 15u);
  EXPECT_EQ(shared, of_several) << "an operator has no case with two inputs of one shape";
}

}  // namespace
}  // namespace tandem::autograd::testing
