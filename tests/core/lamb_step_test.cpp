// Steps of LAMB against its formula, computed naively in float64.
#include "tandem/core/ops/lamb_step.h"

#include <gtest/gtest.h>

#include "tests/core/segment_lists.h"

namespace tandem::core {
namespace {

using namespace testing;

using List = std::vector<LambSegment>;

void step_naively(const LambSegment& s, const LambCoefficients& c, Naive& n) {
  const double t = static_cast<double>(s.steps);
  Values u(n.p.size());
  for (std::size_t i = 0; i < n.p.size(); ++i) {
    double &m = n.first[i], &v = n.second[i];
    m = c.beta1 * m + (1 - c.beta1) * n.g[i];
    v = c.beta2 * v + (1 - c.beta2) * n.g[i] * n.g[i];
    u[i] =
        m / (1 - std::pow(c.beta1, t)) / (std::sqrt(v / (1 - std::pow(c.beta2, t))) + c.eps) + s.weight_decay * n.p[i];
  }
  const double ratio = s.adapt && norm(n.p) > 0 && norm(u) > 0 ? norm(n.p) / norm(u) : 1;
  for (std::size_t i = 0; i < n.p.size(); ++i) n.p[i] -= s.lr * ratio * u[i];
}

List make() {
  List list = make_list<LambSegment>(2);
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].steps = static_cast<std::int64_t>(1 + i % 7);
    list[i].adapt = i % 3 != 0;
  }
  return list;
}

TEST(LambStep, EqualsItsFormula) {
  for (const LambCoefficients& c : {LambCoefficients{}, LambCoefficients{.beta1 = 0.5, .beta2 = 0.7, .eps = 0.1}})
    compare(
        make(), [&](List& list) { lamb_step(list, c); },
        [&](const LambSegment& s, Naive& n) { step_naively(s, c, n); });
}

TEST(LambStep, SameBitsForAnyNumberOfThreads) {
  expect_same_bits<LambSegment>(2, [](List& list) { lamb_step(list, {}); });
}

TEST(LambStep, AnEmptyListAndAWrongOne) {
  lamb_step({}, {});
  List list = make();
  list[2].state[0] = list[2].state[0].to(DType::float64);
  TANDEM_EXPECT_ERROR(lamb_step(list, {}), "lamb_step: segment 2: state 0 is float64 [1, 513]");
}

}  // namespace
}  // namespace tandem::core
