// Each fused operator against its parts over special values, forward and backward: one value of one input, or of the
// output's gradient, is NaN, infinite, a zero of either sign or subnormal.
//
// What comes out NaN, infinite (with its sign) or finite is the same; finite values agree to rounding. Allowed to
// differ are the sign of NaN, the sign of zero, and results below the smallest normal number, which may be 0.
// Attention's backward sums dy y where its parts sum P dP: of an infinite dy it may give infinity where they give NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/random.h"
#include "tests/autograd/operator_cases.h"

namespace tandem::autograd::testing {
namespace {

constexpr double kEps = 1e-5;
constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

struct FusedCase {
  std::string name;
  std::vector<Shape> inputs;
  std::function<Variable(const Inputs&)> fused, parts;
  bool sums_otherwise = false;  ///< infinity and NaN count as the same
};

core::PhiloxStream stream() { return core::RandomContext{.seed = 5}.stream(2); }

void add_bias_gelu(std::vector<FusedCase>& cases) {
  using enum core::GeluApproximation;
  for (const auto& [name, approximation] : {std::pair("bias_gelu", none), std::pair("bias_gelu tanh", tanh)})
    cases.push_back({name,
                     {{3, 20}, {20}},
                     [a = approximation](const Inputs& in) { return bias_gelu(in[0], in[1], a); },
                     [a = approximation](const Inputs& in) { return gelu(in[0] + in[1], a); }});
}

void add_dropout_add_layer_norm(std::vector<FusedCase>& cases) {
  for (const double p : {0., 0.4})
    cases.push_back(
        {p == 0 ? "dropout_add_layer_norm p 0" : "dropout_add_layer_norm p 0.4",
         {{3, 20}, {3, 20}, {20}, {20}},
         [p](const Inputs& in) { return dropout_add_layer_norm(in[0], in[1], in[2], in[3], kEps, p, stream()); },
         [p](const Inputs& in) { return layer_norm(in[1] + dropout(in[0], p, stream()), in[2], in[3], kEps); }});
}

void add_batch_norm(std::vector<FusedCase>& cases) {
  using Norm = std::function<Variable(const Inputs&, const BatchNormFusion&)>;
  const Norm training = [](const Inputs& in, const BatchNormFusion& fusion) {
    return batch_norm_training(in[0], in[1], in[2], kEps, nullptr, fusion);
  };
  const Norm inference = [](const Inputs& in, const BatchNormFusion& fusion) {
    const DType dtype = in[0].dtype() == DType::float64 ? DType::float64 : DType::float32;
    return batch_norm_inference(in[0], in[1], in[2], make_ramp(17, -0.25, 0.125, dtype),
                                make_ramp(17, 0.5, 0.25, dtype), kEps, fusion);
  };
  for (const auto& [name, norm] : {std::pair("training", training), std::pair("inference", inference)})
    for (const bool add : {false, true})
      for (const bool channels_last : {false, true}) {
        const auto placed = [channels_last](Inputs in) {
          for (Variable& v : in)
            if (v.data().rank() == 4 && channels_last) v = contiguous(v, core::MemoryFormat::channels_last);
          return in;
        };
        std::vector<Shape> inputs{{2, 17, 3, 2}, {17}, {17}};
        if (add) inputs.push_back(inputs[0]);
        cases.push_back({std::string("batch_norm_") + name + (add ? " add" : "") + " relu" +
                             (channels_last ? " channels-last" : ""),
                         inputs,
                         [=, norm = norm](const Inputs& given) {
                           const Inputs in = placed(given);
                           return norm(in, {.relu = true, .residual = add ? in[3] : Variable()});
                         },
                         [=, norm = norm](const Inputs& given) {
                           const Inputs in = placed(given);
                           const Variable y = norm(in, {});
                           return relu(add ? y + in[3] : y);
                         }});
      }
}

void add_cross_entropy(std::vector<FusedCase>& cases) {
  for (const bool many : {false, true}) {  // positions whose classes are adjacent, and those whose are not
    const Shape logits = many ? Shape{2, 19, 3} : Shape{3, 19};
    const Tensor target = make_indices(many ? Shape{2, 3} : Shape{3}, 19);
    cases.push_back({many ? "cross_entropy of positions" : "cross_entropy",
                     {logits},
                     [=](const Inputs& in) { return cross_entropy(in[0], target); },
                     [=](const Inputs& in) {
                       const Variable wide = in[0].dtype() == DType::bfloat16 ? cast(in[0], DType::float32) : in[0];
                       const Shape index = many ? Shape{2, 1, 3} : Shape{3, 1};
                       return neg(mean(gather(log_softmax(wide, 1), 1, target.reshape(index))));
                     }});
  }
}

void add_linear_and_conv2d(std::vector<FusedCase>& cases) {
  cases.push_back({"linear with bias",
                   {{3, 20}, {17, 20}, {17}},
                   [](const Inputs& in) { return linear(in[0], in[1], in[2]); },
                   [](const Inputs& in) { return matmul(in[0], transpose(in[1], 0, 1)) + in[2]; }});
  const auto add = [&](const char* name, const Shape& x, const Shape& weight, core::Conv2dOptions options) {
    core::Conv2dOptions plain = options;
    options.activation = core::Activation::relu;
    cases.push_back({name,
                     {x, weight, {weight[0]}},
                     [options](const Inputs& in) { return conv2d(in[0], in[1], in[2], options); },
                     [plain](const Inputs& in) { return relu(conv2d(in[0], in[1], in[2], plain)); }});
  };
  add("conv2d relu", {2, 3, 5, 4}, {18, 3, 3, 3}, {.padding = {1, 1}});
  add("conv2d relu pointwise", {2, 16, 3, 2}, {17, 16, 1, 1}, {});
  add("conv2d relu of one channel", {1, 1, 2, 2}, {1, 1, 1, 1}, {});
  add("conv2d relu groups", {1, 16, 4, 4}, {16, 1, 3, 3}, {.groups = 16});
}

// One head, whose second place of each sequence is masked.
void add_attention(std::vector<FusedCase>& cases) {
  const std::int64_t n = 2, t = 3, d = 4;
  for (const bool masked : {false, true})
    cases.push_back({masked ? "attention with mask" : "attention",
                     {{n, t, d}, {n, t, d}, {n, t, d}},
                     [=](const Inputs& in) {
                       Tensor mask = Tensor::full({n, t}, 1, {.dtype = DType::int64});
                       mask.select(1, 1).fill(0);
                       return attention(
                           in[0], in[1], in[2],
                           {.heads = 1, .mask = masked ? mask : Tensor(), .scale = 0.5, .stream = stream()});
                     },
                     [=](const Inputs& in) {
                       Variable scores = matmul(in[0], transpose(in[1], 1, 2)) * 0.5;
                       if (masked) {
                         Tensor added = Tensor::zeros({1, 1, t}, {.dtype = in[0].dtype()});
                         added.select(2, 1).fill(-kInfinity);
                         scores = scores + Variable(added);
                       }
                       return matmul(softmax(scores, -1), in[2]);
                     },
                     true});
}

std::vector<FusedCase> fused_cases() {
  std::vector<FusedCase> cases;
  add_bias_gelu(cases);
  add_dropout_add_layer_norm(cases);
  add_batch_norm(cases);
  add_cross_entropy(cases);
  add_attention(cases);
  add_linear_and_conv2d(cases);
  return cases;
}

/// Element `element` of input `input` is `value`; the input after the last is the output's gradient.
struct Planted {
  std::size_t input;
  std::size_t element;
  double value;
};

Tensor values_with(const Shape& shape, std::size_t input, DType dtype, const Planted& planted) {
  std::vector<double> values = make_values({shape}, static_cast<int>(input)).to_vector<double>();
  if (planted.input == input && !values.empty()) values[planted.element % values.size()] = planted.value;
  return Tensor::from(values, shape).to(dtype);
}

std::vector<Tensor> results(const FusedCase& c, const std::function<Variable(const Inputs&)>& f, DType dtype,
                            const Planted& planted) {
  Inputs inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    inputs.emplace_back(values_with(c.inputs[i], i, dtype, planted), true);
  const Variable y = f(inputs);
  y.backward({.gradient = values_with(y.shape(), c.inputs.size(), y.dtype(), planted)});
  std::vector<Tensor> all{y.data()};
  for (const Variable& input : inputs) all.push_back(input.grad());
  return all;
}

// Values that are not finite become NaN.
Tensor finite_or_nan(const Tensor& tensor) {
  std::vector<double> values = tensor.to_vector<double>();
  for (double& value : values)
    if (!std::isfinite(value)) value = kNan;
  return Tensor::from(values, tensor.shape());
}

double difference(const FusedCase& c, const Tensor& fused, const Tensor& parts) {
  return c.sums_otherwise ? largest_difference(finite_or_nan(fused), finite_or_nan(parts))
                          : largest_difference(fused, parts);
}

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 1e-5 : 3e-2; }

class FusedOperator : public ::testing::TestWithParam<DType> {};

TEST_P(FusedOperator, GivesWhatItsPartsGiveForSpecialValues) {
  const DType dtype = GetParam();
  const double subnormal = dtype == DType::float64 ? 1e-310 : 1e-40;
  for (const FusedCase& c : fused_cases())
    for (const double value : {1., kNan, kInfinity, -kInfinity, 0., -0., subnormal, -subnormal})
      for (std::size_t input = 0; input <= c.inputs.size(); ++input)
        for (const std::size_t element : {0, 18}) {
          const Planted planted{input, element, value};
          const auto fused = results(c, c.fused, dtype, planted), parts = results(c, c.parts, dtype, planted);
          for (std::size_t i = 0; i < parts.size(); ++i) {
            const double scale = std::max(1., largest_magnitude(parts[i]));
            ASSERT_LE(difference(c, fused[i], parts[i]), tolerance(dtype) * scale)
                << c.name << ", " << value << " as element " << element << " of "
                << (input < c.inputs.size() ? "input " + std::to_string(input) : "the output's gradient") << ": "
                << (i == 0 ? "output" : "gradient of input " + std::to_string(i - 1)) << "\nfused " << fused[i].str()
                << "\nparts " << parts[i].str();
          }
        }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, FusedOperator, ::testing::Values(DType::float32, DType::float64, DType::bfloat16),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace tandem::autograd::testing
