// Steps of SGD and of LARS against their formulas, computed naively in float64.
#include "tandem/core/ops/momentum_step.h"

#include <gtest/gtest.h>

#include "tests/core/segment_lists.h"

namespace tandem::core {
namespace {

using namespace testing;

using List = std::vector<MomentumSegment>;

void step_naively(const MomentumSegment& s, const MomentumCoefficients& c, Naive& n) {
  double ratio = 1;
  if (s.adapt && norm(n.p) > 0 && norm(n.g) > 0)
    ratio = c.trust_coefficient * norm(n.p) / (norm(n.g) + s.weight_decay * norm(n.p) + c.eps);
  for (std::size_t i = 0; i < n.p.size(); ++i) {
    double g = ratio * (n.g[i] + s.weight_decay * n.p[i]);
    if (s.state[0].defined()) {
      n.first[i] = s.keep * n.first[i] + s.add * g;
      g = c.nesterov ? g + c.momentum * n.first[i] : n.first[i];
    }
    n.p[i] -= s.lr * g;
  }
}

void check(List list, const MomentumCoefficients& c) {
  compare(
      std::move(list), [&](List& l) { momentum_step(l, c); },
      [&](const MomentumSegment& s, Naive& n) { step_naively(s, c, n); });
}

/// Every second one has its own velocity; all adapt but every third, if any does.
List make(bool adapt) {
  List list = make_list<MomentumSegment>(1);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i % 2 != 0) list[i].state[0] = Tensor();
    list[i].keep = i % 5 == 0 ? 0 : 0.9;
    list[i].add = i % 5 == 0 ? 1 : 0.7;
    list[i].adapt = adapt && i % 3 != 0;
  }
  return list;
}

TEST(MomentumStep, EqualsItsFormula) {
  check(make(false), {.momentum = 0.9});
  check(make(false), {.momentum = 0.9, .nesterov = true});
  check(make(true), {.momentum = 0.9, .trust_coefficient = 0.05, .eps = 1e-8});
}

TEST(MomentumStep, SameBitsForAnyNumberOfThreads) {
  for (const bool adapt : {false, true})
    expect_same_bits<MomentumSegment>(1, [=](List& list) {
      for (MomentumSegment& s : list) s.adapt = adapt;
      momentum_step(list, {.momentum = 0.9, .trust_coefficient = 0.05});
    });
}

TEST(MomentumStep, AnEmptyListAndAWrongOne) {
  momentum_step({}, {});
  List list = make(true);
  const Values before = list[0].parameter.to_vector<double>();
  list[7].gradient = Tensor::zeros({2});
  TANDEM_EXPECT_ERROR(momentum_step(list, {}),
                      "momentum_step: segment 7: the gradient is float32 [2] with strides [1] on");
  EXPECT_EQ(list[0].parameter.to_vector<double>(), before);
}

}  // namespace
}  // namespace tandem::core
