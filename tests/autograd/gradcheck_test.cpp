// Every operator of ops.h over the table of cases: gradients against finite differences in float64; float32 and
// bfloat16, forward and backward, against float64.
#include "tandem/autograd/gradcheck.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <regex>
#include <set>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/ops/unary.h"
#include "tests/autograd/operator_cases.h"

namespace tandem::autograd::testing {
namespace {

std::vector<std::string> declared_operators() {
  const std::string path = TANDEM_TEST_DATA "/../../autograd/ops.h";
  std::ifstream file(path);
  if (!file) core::fail("cannot read {}", path);
  const std::regex declaration(R"(^(?:inline )?Variable (\w+|operator[-+*/])\(.*)");
  std::vector<std::string> names;
  std::smatch match;
  for (std::string line; std::getline(file, line);)
    if (std::regex_match(line, match, declaration) && std::find(names.begin(), names.end(), match[1]) == names.end())
      names.push_back(match[1]);
  return names;
}

std::set<std::string> operators_with_cases() {
  std::set<std::string> names;
  for (const OperatorCase& c : operator_cases()) names.insert(c.op);
  return names;
}

TEST(OperatorCases, EveryOperatorOfTheHeaderHasSomeAndNoOtherHas) {
  const std::vector<std::string> declared = declared_operators();
  EXPECT_GT(declared.size(), 50u) << "ops.h was not understood";
  std::set<std::string> covered = operators_with_cases();
  for (const std::string& name : declared) EXPECT_EQ(covered.erase(name), 1u) << name << " has no case";
  for (const std::string& name : covered) ADD_FAILURE() << "cases for " << name << ", which ops.h does not declare";
}

TEST(OperatorCases, NamesAreUnique) {
  std::set<std::string> names;
  for (const OperatorCase& c : operator_cases())
    EXPECT_TRUE(names.insert(c.op + "." + c.name).second) << c.op << "." << c.name;
}

TEST(OperatorCases, LayoutsAreWhatTheySay) {
  const Tensor values = make_values({{2, 3, 4, 5}}, 0);
  for (const Layout layout :
       {Layout::contiguous, Layout::transposed, Layout::sliced, Layout::stepped, Layout::channels_last}) {
    const Tensor tensor = arranged(values, layout);
    EXPECT_EQ(largest_difference(tensor, values), 0);
    EXPECT_EQ(tensor.is_contiguous(), layout == Layout::contiguous);
    EXPECT_EQ(tensor.is_channels_last(), layout == Layout::channels_last);
    EXPECT_EQ(tensor.is_dense(), layout != Layout::sliced && layout != Layout::stepped);
  }
}

Inputs make_inputs(const OperatorCase& c) {
  Inputs inputs;
  for (const InputSpec& spec : c.inputs)
    inputs.emplace_back(arranged(make_values(spec, static_cast<int>(inputs.size())), spec.layout), true);
  return inputs;
}

// One test for each operator, so that a failure names it.
class Operator : public ::testing::TestWithParam<std::string> {
 protected:
  template <class Check>
  void for_each_case(Check&& check) {
    for (const OperatorCase& c : operator_cases()) {
      if (c.op != GetParam()) continue;
      SCOPED_TRACE(c.op + "." + c.name);
      try {
        check(c);
      } catch (const core::Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
};

TEST_P(Operator, GradientsMatchFiniteDifferences) {
  for_each_case([](const OperatorCase& c) {
    if (!c.finite_differences) return;
    const GradcheckResult result = gradcheck(c.function, make_inputs(c));
    EXPECT_TRUE(result.ok) << result.message;
  });
}

// Each input alone: rules skip what nobody asks for, and must not confuse the others by it.
TEST_P(Operator, GradientsMatchFiniteDifferencesWhenOnlyOneIsWanted) {
  for_each_case([](const OperatorCase& c) {
    if (!c.finite_differences || c.inputs.size() < 2) return;
    for (std::size_t wanted = 0; wanted < c.inputs.size(); ++wanted) {
      Inputs inputs = make_inputs(c);
      for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].set_requires_grad(i == wanted);
      const GradcheckResult result = gradcheck(c.function, inputs);
      EXPECT_TRUE(result.ok) << "input " << wanted << " alone: " << result.message;
    }
  });
}

struct Values {
  Tensor output;
  std::vector<Tensor> gradients;
};

Values run(const OperatorCase& c, const std::vector<Tensor>& rounded, DType dtype) {
  Inputs inputs;
  for (std::size_t i = 0; i < rounded.size(); ++i)
    inputs.emplace_back(arranged(rounded[i].to(dtype), c.inputs[i].layout), true);
  const Variable output = c.function(inputs);
  Tensor weights = make_values({output.shape()}, 99).to(DType::bfloat16).to(output.dtype());
  Values values{output.data(), {}};
  if (output.requires_grad()) output.backward({.gradient = weights});
  for (const Variable& input : inputs) values.gradients.push_back(input.grad());
  return values;
}

void expect_close(const Tensor& actual, const Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.defined(), expected.defined()) << what;
  if (!actual.defined()) return;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  EXPECT_LE(largest_difference(actual, expected), tolerance * std::max(largest_magnitude(expected), 0.05)) << what;
}

// The inputs are rounded to the narrow type first, so that only the arithmetic is judged.
void expect_like_float64(const OperatorCase& c, DType dtype, double tolerance) {
  std::vector<Tensor> rounded;
  for (const InputSpec& spec : c.inputs)
    rounded.push_back(make_values(spec, static_cast<int>(rounded.size())).to(dtype));
  const Values narrow = run(c, rounded, dtype), wide = run(c, rounded, DType::float64);
  if (c.op == "cross_entropy") {
    EXPECT_EQ(narrow.output.dtype(), DType::float32);  // a loss is not rounded
  } else if (c.op != "cast") {
    EXPECT_EQ(narrow.output.dtype(), dtype);
  }
  expect_close(narrow.output, wide.output, tolerance, "output");
  for (std::size_t i = 0; i < wide.gradients.size(); ++i) {
    if (narrow.gradients[i].defined()) {
      EXPECT_EQ(narrow.gradients[i].dtype(), dtype);
    }
    expect_close(narrow.gradients[i], wide.gradients[i], tolerance, "gradient of input " + std::to_string(i));
  }
}

TEST_P(Operator, Float32MatchesFloat64) {
  for_each_case(
      [](const OperatorCase& c) { expect_like_float64(c, DType::float32, c.name == "to_bfloat16" ? 1e-2 : 3e-6); });
}

// One rounding costs 2^-9 = 0.2 % at most; a gradient passes through a few.
TEST_P(Operator, Bfloat16MatchesFloat64) {
  for_each_case([](const OperatorCase& c) { expect_like_float64(c, DType::bfloat16, 2e-2); });
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  static const std::pair<const char*, const char*> symbols[] = {{"operator+", "operator_plus"},
                                                                {"operator-", "operator_minus"},
                                                                {"operator*", "operator_times"},
                                                                {"operator/", "operator_over"}};
  for (const auto& [symbol, word] : symbols)
    if (info.param == symbol) return word;
  return info.param;
}

INSTANTIATE_TEST_SUITE_P(Ops, Operator, ::testing::ValuesIn(declared_operators()), test_name);

// A convention, and not every version of PyTorch's: there it is 0 in newer ones.
TEST(Clamp, GradientIsOneOnTheBounds) {
  const Variable x(Tensor::from(std::vector<double>{-2, -1, 0, 0.5, 2}), true);
  sum(clamp(x, -1, 0.5)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 1, 1, 1, 0}));
}

// The tester tested: wrong gradients must not pass.
TEST(Gradcheck, RejectsAPlantedWrongGradient) {
  const auto planted = [](double factor, double offset) {
    return [=](const Inputs& in) {
      return record("planted", core::square(in[0].data()), {in[0]},
                    [x = in[0].data(), factor, offset](Tensor dy, Gradients& dx) {
                      const auto g = dy.to_vector<double>(), v = x.to_vector<double>();
                      std::vector<double> out(g.size());
                      for (std::size_t i = 0; i < g.size(); ++i) out[i] = factor * g[i] * v[i] + (i == 2 ? offset : 0);
                      dx.add(0, Tensor::from(out, dy.shape(), dy.device()));
                    });
    };
  };
  const auto check = [&](double factor, double offset) {
    return gradcheck(planted(factor, offset), {Variable(make_values({{5}}, 1), true)});
  };
  EXPECT_TRUE(check(2, 0).ok);
  EXPECT_FALSE(check(-2, 0).ok);
  EXPECT_FALSE(check(2.001, 0).ok);
  const GradcheckResult one_element = check(2, 1e-3);
  EXPECT_FALSE(one_element.ok);
  EXPECT_NE(one_element.message.find("element 2"), std::string::npos) << one_element.message;
  EXPECT_NEAR(one_element.worst_error, 1e-3, 1e-5);
}

TEST(Gradcheck, RejectsAMissingGradient) {
  const auto forgotten = [](const Inputs& in) {
    return record("forgotten", core::square(in[0].data()), {in[0]}, [](Tensor, Gradients&) {});
  };
  EXPECT_FALSE(gradcheck(forgotten, {Variable(make_values({{3}}, 1), true)}).ok);
  const auto cut_off = [](const Inputs& in) { return in[0] * in[1].detach(); };
  EXPECT_FALSE(gradcheck(cut_off, {Variable(make_values({{3}}, 1), true), Variable(make_values({{3}}, 2), true)}).ok);
}

TEST(Gradcheck, RejectsNaN) {
  const auto nan = [](const Inputs& in) {
    return record("nan", core::square(in[0].data()), {in[0]},
                  [](Tensor dy, Gradients& dx) { dx.add(0, core::mul_scalar(dy, std::nan(""))); });
  };
  EXPECT_FALSE(gradcheck(nan, {Variable(make_values({{3}}, 1), true)}).ok);
}

TEST(Gradcheck, AsksForFloat64) {
  const auto f = [](const Inputs& in) { return square(in[0]); };
  EXPECT_THROW(gradcheck(f, {Variable(Tensor::zeros({2}), true)}), core::Error);
}

}  // namespace
}  // namespace tandem::autograd::testing
