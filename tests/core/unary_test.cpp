#include "tandem/core/ops/unary.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

struct Case {
  const char* name;
  Tensor (*op)(const Tensor&);
  double (*reference)(double);
  bool positive = false;  // defined for positive numbers only
};

const Case kCases[] = {
    {"neg", [](const Tensor& x) { return neg(x); }, [](double v) { return -v; }},
    {"abs", [](const Tensor& x) { return abs(x); }, [](double v) { return std::fabs(v); }},
    {"sign", [](const Tensor& x) { return sign(x); }, [](double v) { return v > 0 ? 1.0 : (v < 0 ? -1.0 : v); }},
    {"exp", [](const Tensor& x) { return exp(x); }, [](double v) { return std::exp(v); }},
    {"log", [](const Tensor& x) { return log(x); }, [](double v) { return std::log(v); }, true},
    {"sqrt", [](const Tensor& x) { return sqrt(x); }, [](double v) { return std::sqrt(v); }, true},
    {"reciprocal", [](const Tensor& x) { return reciprocal(x); }, [](double v) { return 1 / v; }},
    {"square", [](const Tensor& x) { return square(x); }, [](double v) { return v * v; }},
    {"relu", [](const Tensor& x) { return relu(x); }, [](double v) { return v > 0 || std::isnan(v) ? v : 0; }},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, [](double v) { return 1 / (1 + std::exp(-v)); }},
    {"tanh", [](const Tensor& x) { return tanh(x); }, [](double v) { return std::tanh(v); }},
    {"add_scalar", [](const Tensor& x) { return add_scalar(x, 0.75); }, [](double v) { return v + 0.75; }},
    {"mul_scalar", [](const Tensor& x) { return mul_scalar(x, -1.5); }, [](double v) { return v * -1.5; }},
    {"pow 0", [](const Tensor& x) { return pow_scalar(x, 0); }, [](double) { return 1.0; }},
    {"pow 1", [](const Tensor& x) { return pow_scalar(x, 1); }, [](double v) { return v; }},
    {"pow 2", [](const Tensor& x) { return pow_scalar(x, 2); }, [](double v) { return v * v; }},
    {"pow 3", [](const Tensor& x) { return pow_scalar(x, 3); }, [](double v) { return v * v * v; }},
    {"pow -1", [](const Tensor& x) { return pow_scalar(x, -1); }, [](double v) { return 1 / v; }},
    {"pow -1.5", [](const Tensor& x) { return pow_scalar(x, -1.5); }, [](double v) { return std::pow(v, -1.5); }, true},
    {"clamp", [](const Tensor& x) { return clamp(x, -0.5, 1); },
     [](double v) { return v < -0.5 ? -0.5 : (v > 1 ? 1 : v); }},
};

TEST(Unary, MatchesReferenceForEveryLayout) {
  for (const Case& c : kCases)
    for (const DType dtype : kFloating)
      for (const Tensor& x : awkward_tensors(dtype, c.positive ? 0.125 : -2, 2)) {
        const Tensor y = c.op(x);
        ASSERT_EQ(y.shape(), x.shape());
        ASSERT_EQ(y.dtype(), dtype);
        const auto in = x.to_vector<double>(), out = y.to_vector<double>();
        for (std::size_t i = 0; i < in.size(); ++i) {
          const double wanted = c.reference(in[i]);
          ASSERT_TRUE(close(out[i], wanted, 4 * epsilon(dtype) * std::fabs(wanted)))
              << c.name << " of " << in[i] << " is " << out[i] << ", not " << wanted << ": " << describe(x);
        }
      }
}

TEST(Unary, ResultKeepsDenseLayout) {
  const Tensor x = Tensor::zeros({2, 3, 4, 5}, {.format = MemoryFormat::channels_last});
  EXPECT_TRUE(exp(x).is_channels_last());
  EXPECT_EQ(relu(x.permute({3, 0, 2, 1})).strides(), x.permute({3, 0, 2, 1}).strides());
  EXPECT_TRUE(relu(x.slice(1, 0, 2)).is_contiguous());
  EXPECT_TRUE(relu(Tensor::zeros({3, 1}).expand({3, 4})).is_contiguous());
}

// float against double, over the range in which the result is finite and normal: at most a few units in the last place.
TEST(Unary, FloatFunctionsAreExactToAFewUnits) {
  struct Range {
    const char* name;
    Tensor (*op)(const Tensor&);
    double low, high;
  };
  for (const Range& r : {Range{"exp", exp, -87, 88.7}, Range{"log", log, 0, 4}, Range{"log", log, 0, 3e38},
                         Range{"tanh", tanh, -12, 12}, Range{"tanh", tanh, -1e-3, 1e-3},
                         Range{"sigmoid", sigmoid, -80, 80}, Range{"exp", exp, -1, 1}, Range{"log", log, 0.9, 1.1}}) {
    const Tensor x = random_tensor({100000}, DType::float32, 5, r.low, r.high);
    const auto got = r.op(x).to_vector<float>();
    const auto wanted = r.op(x.to(DType::float64)).to_vector<double>();
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const float nearest = std::fabs(static_cast<float>(wanted[i]));
      const double unit = std::nextafter(nearest, std::numeric_limits<float>::infinity()) - nearest;
      worst = std::max(worst, std::fabs(got[i] - wanted[i]) / unit);
    }
    EXPECT_LT(worst, 3) << r.name << " on [" << r.low << ", " << r.high << ")";
  }
}

TEST(Unary, InfinitiesNanAndSubnormals) {
  const double largest = std::numeric_limits<float>::max(), tiny = std::numeric_limits<float>::denorm_min();
  for (const DType dtype : kFloating) {
    const auto x = Tensor::from<double>({kInfinity, -kInfinity, kNan, 0.0, -0.0, 1000, -1000, largest, tiny}).to(dtype);
    const auto in = x.to_vector<double>();
    for (const Case& c : kCases) {
      const auto out = c.op(x).to_vector<double>();
      for (std::size_t i = 0; i < in.size(); ++i) {
        double wanted = c.reference(in[i]);
        if (dtype != DType::float64) wanted = static_cast<float>(wanted);  // overflow and underflow as float's
        if (dtype == DType::bfloat16) wanted = static_cast<float>(bfloat16(static_cast<float>(wanted)));
        ASSERT_TRUE(close(out[i], wanted, 4 * epsilon(dtype) * std::fabs(wanted)))
            << c.name << " of " << in[i] << " is " << out[i] << ", not " << wanted << ": " << name(dtype);
        if (wanted == 0 && std::string(c.name) != "relu") {  // relu(-0) may be -0
          ASSERT_EQ(std::signbit(out[i]), std::signbit(wanted)) << c.name << " of " << in[i];
        }
      }
    }
  }
}

TEST(Unary, ScaleWorksInPlaceOnAnyStrides) {
  for (const DType dtype : kFloating) {
    Tensor x = Tensor::full({4, 6}, 1, {.dtype = dtype});
    Tensor view = x.transpose(0, 1).slice(0, 1, 6, 2);
    const auto version = x.version();
    scale(view, 3);
    EXPECT_GT(x.version(), version);
    EXPECT_EQ(x.to_vector<float>(),
              (std::vector<float>{1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3}));
  }
  Tensor repeated = Tensor::full({3, 1}, 1).expand({3, 2});
  TANDEM_EXPECT_ERROR(scale(repeated, 2), "scale: cannot write in place to [3, 2]");
}

struct BackwardCase {
  const char* name;
  Tensor (*op)(Tensor, const Tensor&);
  double (*reference)(double dy, double y);
};

const BackwardCase kBackward[] = {
    {"relu", [](Tensor dy, const Tensor& y) { return relu_backward(std::move(dy), y); },
     [](double dy, double y) { return y > 0 ? dy : 0; }},
    {"sigmoid", [](Tensor dy, const Tensor& y) { return sigmoid_backward(std::move(dy), y); },
     [](double dy, double y) { return dy * y * (1 - y); }},
    {"tanh", [](Tensor dy, const Tensor& y) { return tanh_backward(std::move(dy), y); },
     [](double dy, double y) { return dy * (1 - y * y); }},
    {"clamp", [](Tensor dy, const Tensor& x) { return clamp_backward(std::move(dy), x, -0.5, 1); },
     [](double dy, double x) { return x >= -0.5 && x <= 1 ? dy : 0; }},
};

TEST(Unary, BackwardMatchesReferenceForEveryLayout) {
  for (const BackwardCase& c : kBackward)
    for (const DType dtype : kFloating)
      for (const Tensor& y : awkward_tensors(dtype)) {
        const Tensor plain = random_tensor(y.shape(), dtype, 77);
        Tensor alike = Tensor::empty_like(y);
        alike.copy_from(plain);
        for (const Tensor& dy : {plain, alike}) {
          const auto gradient = dy.to_vector<double>(), in = y.to_vector<double>();
          const Tensor kept = c.op(dy, y), reused = c.op(dy.clone(), y);
          EXPECT_EQ(dy.to_vector<double>(), gradient) << "an input that others see was overwritten";
          const auto out = kept.to_vector<double>();
          EXPECT_EQ(reused.to_vector<double>(), out);
          for (std::size_t i = 0; i < in.size(); ++i)
            ASSERT_TRUE(close(out[i], c.reference(gradient[i], in[i]), 16 * epsilon(dtype)))
                << c.name << " at y " << in[i] << ": " << describe(y);
        }
      }
}

// Central differences in float64 of the forward operators: the gradient rules are those of the functions.
TEST(Unary, BackwardIsTheDerivative) {
  const Tensor x = random_tensor({40}, DType::float64, 3), one = Tensor::full({40}, 1, {.dtype = DType::float64});
  constexpr double kStep = 1e-5;
  const auto check = [&](const char* what, auto forward, const Tensor& gradient) {
    const auto up = forward(add_scalar(x, kStep)).template to_vector<double>();
    const auto down = forward(add_scalar(x, -kStep)).template to_vector<double>();
    const auto got = gradient.to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], (up[i] - down[i]) / (2 * kStep), 1e-9) << what;
  };
  check(
      "relu", [](const Tensor& v) { return relu(v); }, relu_backward(one, relu(x)));
  check(
      "sigmoid", [](const Tensor& v) { return sigmoid(v); }, sigmoid_backward(one, sigmoid(x)));
  check(
      "tanh", [](const Tensor& v) { return tanh(v); }, tanh_backward(one, tanh(x)));
  check(
      "clamp", [](const Tensor& v) { return clamp(v, -0.5, 1); }, clamp_backward(one, x, -0.5, 1));
}

TEST(Unary, BackwardReusesMemoryThatWasGivenAway) {
  const Tensor y = Tensor::full({2, 3, 4, 5}, 1, {.format = MemoryFormat::channels_last});
  Tensor dy = Tensor::full(y.shape(), 2, {.format = MemoryFormat::channels_last});
  const Storage* memory = dy.storage().get();
  EXPECT_EQ(relu_backward(std::move(dy), y).storage().get(), memory);

  Tensor other_layout = Tensor::full(y.shape(), 2);
  memory = other_layout.storage().get();
  const Tensor dx = relu_backward(std::move(other_layout), y);
  EXPECT_NE(dx.storage().get(), memory);
  EXPECT_TRUE(dx.is_channels_last());

  Tensor shared = Tensor::full(y.shape(), 2, {.format = MemoryFormat::channels_last});
  EXPECT_NE(relu_backward(shared, y).storage().get(), shared.storage().get());
  Tensor repeated = Tensor::full({1}, 2).expand({4});
  EXPECT_EQ(relu_backward(std::move(repeated), Tensor::full({4}, 1)).to_vector<float>(), std::vector<float>(4, 2));
}

TEST(Unary, ErrorsNameTheOperator) {
  const Tensor ints = Tensor::arange(3), floats = Tensor::zeros({3});
  TANDEM_EXPECT_ERROR(exp(ints), "exp: needs float32, float64 or bfloat16, got int64 [3]");
  TANDEM_EXPECT_ERROR(relu(Tensor()), "relu: the tensor is undefined");
  TANDEM_EXPECT_ERROR(mul_scalar(ints, 2), "mul_scalar");
  TANDEM_EXPECT_ERROR(clamp(floats, 1, 0), "clamp: the lower bound 1 is not below the upper bound 0");
  TANDEM_EXPECT_ERROR(relu_backward(Tensor::zeros({4}), floats),
                      "relu_backward: gradient float32 [4] does not fit float32 [3]");
}

}  // namespace
}  // namespace tandem::core
