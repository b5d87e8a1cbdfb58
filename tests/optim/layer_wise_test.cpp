// LARS and LAMB against their formulas, computed naively in float64, over odd parameters.
#include <gtest/gtest.h>

#include <cmath>

#include "tandem/core/ops/random_fill.h"
#include "tandem/optim/lamb.h"
#include "tandem/optim/lars.h"
#include "tandem/optim/sgd.h"

namespace tandem::optim {
namespace {

using core::DType;
using core::Shape;
using Values = std::vector<double>;

Tensor uniform(const Shape& shape, std::uint32_t stream, DType dtype) {
  Tensor tensor = Tensor::empty(shape, {.dtype = dtype});
  core::fill_uniform(tensor, -1, 1, core::RandomContext{.seed = 9}.stream(stream));
  return tensor;
}

double norm(const Values& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// One parameter, as the formulas see it.
struct Naive {
  Values p, b, m, v;
  int t = 0;
  double decay = 0, lr = 0;
  bool adapt = true;

  void lars(const Values& g, const LarsOptions& o) {
    double ratio = 1;
    if (adapt && norm(p) > 0 && norm(g) > 0)
      ratio = o.trust_coefficient * norm(p) / (norm(g) + decay * norm(p) + o.eps);
    b.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      b[i] = o.momentum * b[i] + ratio * (g[i] + decay * p[i]);
      p[i] -= lr * b[i];
    }
  }

  void lamb(const Values& g, const LambOptions& o) {
    ++t;
    m.resize(p.size());
    v.resize(p.size());
    Values u(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      u[i] = m[i] / (1 - std::pow(o.beta1, t)) / (std::sqrt(v[i] / (1 - std::pow(o.beta2, t))) + o.eps) + decay * p[i];
    }
    const double ratio = adapt && norm(p) > 0 && norm(u) > 0 ? norm(p) / norm(u) : 1;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= lr * ratio * u[i];
  }
};

/// Parameters whose sums are cut differently (several pieces, several blocks, fewer than a vector, none), in both
/// types, some of them zero, in three groups.
std::vector<ParameterGroup> make_groups() {
  std::vector<ParameterGroup> groups(3);
  groups[1].weight_decay = 0.5;
  groups[1].lr_factor = 3;
  groups[2].weight_decay = 0;
  groups[2].adapt = false;
  std::uint32_t stream = 0;
  for (ParameterGroup& group : groups)
    for (const DType dtype : {DType::float32, DType::float64})
      for (const Shape& shape : {Shape{131, 301}, {1, 513}, {2, 8}, {3}, {}, {0, 4}})
        group.parameters.emplace_back(uniform(shape, stream++, dtype), true);
  Tensor(groups[0].parameters[2].data()).fill(0);
  Tensor(groups[1].parameters[9].data()).fill(0);
  return groups;
}

/// In step 1 number 3 has no gradient; number 4's is always zero; others lie transposed, or in a larger tensor.
Tensor gradient_of(const Variable& parameter, std::size_t number, std::uint32_t step) {
  if (number == 3 && step == 1) return {};
  Tensor gradient =
      uniform(parameter.shape(), 1000 * (step + 1) + static_cast<std::uint32_t>(number), parameter.dtype());
  if (number == 4) gradient.fill(0);
  if (gradient.rank() != 2) return gradient;
  if (step == 1) return gradient.transpose(0, 1).contiguous().transpose(0, 1);
  if (step == 2) {
    Tensor wide =
        Tensor::full({gradient.size(0), gradient.size(1) + 3}, 1e9, {.dtype = gradient.dtype()}).slice(1, 2, -1);
    return wide.copy_from(gradient);
  }
  return gradient;
}

template <class O, class Options, class Step>
void compare(const Options& options, Step&& step_naively) {
  const auto groups = make_groups();
  O optimizer(groups, options);
  std::vector<Naive> naive;
  for (const ParameterGroup& group : groups)
    for (const Variable& parameter : group.parameters)
      naive.push_back({.p = parameter.data().template to_vector<double>(),
                       .b = {},
                       .m = {},
                       .v = {},
                       .decay = group.weight_decay.value_or(options.weight_decay),
                       .lr = options.lr * group.lr_factor,
                       .adapt = group.adapt});
  std::vector<Variable> parameters = optimizer.parameters();
  for (std::uint32_t step = 0; step < 4; ++step) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(gradient_of(parameters[i], i, step));
    optimizer.step();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].grad().defined()) step_naively(naive[i], parameters[i].grad().template to_vector<double>());
      const Values actual = parameters[i].data().template to_vector<double>();
      const double tolerance = parameters[i].dtype() == DType::float32 ? 3e-6 : 1e-13;
      double worst = 0;
      for (std::size_t k = 0; k < actual.size(); ++k) {
        const double error = std::abs(actual[k] - naive[i].p[k]) / std::max(1.0, std::abs(naive[i].p[k]));
        if (!(error <= worst)) worst = error;
        if (std::isnan(error)) break;  // no bound holds for it
      }
      ASSERT_LE(worst, tolerance) << "step " << step << ", parameter " << i;
    }
  }
}

TEST(Lars, EqualsItsFormula) {
  for (const double momentum : {0.0, 0.9})
    compare<Lars>(
        LarsOptions{.lr = 1, .momentum = momentum, .weight_decay = 0.1, .trust_coefficient = 0.05},
        [&](Naive& naive, const Values& g) { naive.lars(g, {.momentum = momentum, .trust_coefficient = 0.05}); });
}

TEST(Lamb, EqualsItsFormula) {
  compare<Lamb>(LambOptions{.lr = 0.05, .weight_decay = 0.1}, [](Naive& naive, const Values& g) { naive.lamb(g, {}); });
  const LambOptions other{.lr = 0.05, .beta1 = 0.5, .beta2 = 0.7, .eps = 0.1, .weight_decay = 0.1};
  compare<Lamb>(other, [&](Naive& naive, const Values& g) { naive.lamb(g, other); });
}

// The whole of LARS is SGD where nothing adapts.
TEST(Lars, WithoutAdaptationIsSgd) {
  Variable a(uniform({40, 3}, 0, DType::float32), true), b(a.data().clone(), true);
  Lars lars({{.parameters = {a}, .adapt = false}}, {.lr = 0.1, .momentum = 0.8, .weight_decay = 0.1});
  Sgd sgd({b}, {.lr = 0.1, .momentum = 0.8, .weight_decay = 0.1});
  for (std::uint32_t step = 1; step < 4; ++step) {
    for (Variable v : {a, b}) v.set_grad(uniform({40, 3}, step, DType::float32));
    lars.step();
    sgd.step();
  }
  EXPECT_EQ(a.data().to_vector<float>(), b.data().to_vector<float>());
}

// What gives them their names: a gradient's size does not matter.
TEST(Lars, AStepsLengthIsAShareOfTheNorm) {
  for (const double size : {1e-3, 1.0, 1e3}) {
    Variable p(Tensor::full({4, 4}, 2), true);  // norm 8
    p.set_grad(Tensor::full({4, 4}, size));
    Lars({p}, {.lr = 5, .weight_decay = 0, .trust_coefficient = 0.01}).step();
    EXPECT_NEAR(p.data().to_vector<float>()[0], 2 - 5 * 0.01 * 8 / 4, 1e-4) << size;
  }
}

TEST(Lamb, AStepsLengthIsTheRateTimesTheNorm) {
  for (const double size : {1e-3, 1.0, 1e3}) {
    Variable p(Tensor::full({4, 4}, 2), true);
    p.set_grad(Tensor::full({4, 4}, size));
    Lamb({p}, {.lr = 0.1, .weight_decay = 0}).step();
    EXPECT_NEAR(p.data().to_vector<float>()[0], 2 - 0.1 * 8 / 4, 1e-5) << size;
  }
}

// Sums of squares of this size leave float32's range.
TEST(Lars, NormsAreSummedInDouble) {
  Variable p(Tensor::full({8}, 1e25), true);
  p.set_grad(Tensor::full({8}, 1e25));
  Lars({p}, {.lr = 1, .momentum = 0, .weight_decay = 0, .trust_coefficient = 0.5, .eps = 0}).step();
  EXPECT_NEAR(p.data().to_vector<float>()[0], 0.5e25, 1e19);
}

}  // namespace
}  // namespace tandem::optim
