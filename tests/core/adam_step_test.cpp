// Steps of Adam and AdamW against their formula, computed naively in float64.
#include "tandem/core/ops/adam_step.h"

#include <gtest/gtest.h>

#include "tests/core/segment_lists.h"

namespace tandem::core {
namespace {

using namespace testing;

using List = std::vector<AdamSegment>;

void step_naively(const AdamSegment& s, const AdamCoefficients& c, Naive& n) {
  const double t = static_cast<double>(s.steps);
  for (std::size_t i = 0; i < n.p.size(); ++i) {
    const double g = n.g[i] + (c.decoupled_weight_decay ? 0 : s.weight_decay * n.p[i]);
    double &m = n.first[i], &v = n.second[i];
    m = c.beta1 * m + (1 - c.beta1) * g;
    v = c.beta2 * v + (1 - c.beta2) * g * g;
    if (c.decoupled_weight_decay) n.p[i] *= 1 - s.lr * s.weight_decay;
    n.p[i] -= s.lr * (m / (1 - std::pow(c.beta1, t))) / (std::sqrt(v / (1 - std::pow(c.beta2, t))) + c.eps);
  }
}

List make() {
  List list = make_list<AdamSegment>(2);
  for (std::size_t i = 0; i < list.size(); ++i) list[i].steps = static_cast<std::int64_t>(1 + i % 7);
  return list;
}

TEST(AdamStep, EqualsItsFormula) {
  for (const AdamCoefficients& c : {AdamCoefficients{}, AdamCoefficients{.decoupled_weight_decay = true},
                                    AdamCoefficients{.beta1 = 0.5, .beta2 = 0.7, .eps = 0.1}})
    compare(
        make(), [&](List& list) { adam_step(list, c); },
        [&](const AdamSegment& s, Naive& n) { step_naively(s, c, n); });
}

TEST(AdamStep, SameBitsForAnyNumberOfThreads) {
  expect_same_bits<AdamSegment>(2, [](List& list) { adam_step(list, {}); });
}

TEST(AdamStep, AnEmptyListAndAWrongOne) {
  adam_step({}, {});
  List list = make();
  list[5].state[1] = Tensor();
  TANDEM_EXPECT_ERROR(adam_step(list, {}), "adam_step: segment 5: state 1 is undefined, the parameter float32 []");
}

}  // namespace
}  // namespace tandem::core
