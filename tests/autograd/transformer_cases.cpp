// Cases of what transformers are made of: layer norm, alone and after dropout and add, GELU, attention.
#include "tandem/autograd/ops.h"
#include "tests/autograd/operator_cases.h"

namespace tandem::autograd::testing {
namespace {

using Cases = std::vector<OperatorCase>;
constexpr double kEps = 1e-5;

Variable at(const Inputs& in, std::size_t i) { return in.size() > i ? in[i] : Variable(); }

std::vector<InputSpec> with_parameters(std::vector<InputSpec> inputs, int parameters) {
  for (int i = 0; i < parameters; ++i) inputs.push_back({{inputs[0].shape.back()}});
  return inputs;
}

void add_layer_norm(Cases& cases) {
  const auto add = [&](const char* name, const InputSpec& x, int parameters = 2, bool finite_differences = true) {
    cases.push_back({"layer_norm", name, with_parameters({x}, parameters),
                     [](const Inputs& in) { return layer_norm(in[0], at(in, 1), at(in, 2), kEps); },
                     finite_differences});
  };
  add("matrix", {{4, 5}});
  add("sequences", {{2, 3, 6}});
  add("vector", {{7}});
  add("no_affine", {{4, 5}}, 0);
  add("no_bias", {{4, 5}}, 1);
  add("one_row", {{1, 5}});
  add("empty_batch", {{0, 5}});
  add("empty_rows", {{3, 0}});
  add("transposed", {{4, 5}, Layout::transposed});
  add("sliced", {{4, 5}, Layout::sliced});
  add("stepped", {{4, 5}, Layout::stepped});
  add("channels_last", {{2, 3, 4, 5}, Layout::channels_last});
  add("wide", {{67, 301}}, 2, false);
}

void add_dropout_add_layer_norm(Cases& cases) {
  const auto add = [&](const char* name, const InputSpec& x, const InputSpec& residual, double p, int parameters = 2,
                       bool finite_differences = true) {
    cases.push_back({"dropout_add_layer_norm", name, with_parameters({x, residual}, parameters),
                     [p](const Inputs& in) {
                       return dropout_add_layer_norm(in[0], in[1], at(in, 2), at(in, 3), kEps, p,
                                                     core::RandomContext{.seed = 5}.stream(2));
                     },
                     finite_differences});
  };
  add("none", {{4, 5}}, {{4, 5}}, 0);
  add("none_no_affine", {{2, 3, 4}}, {{2, 3, 4}}, 0, 0);
  add("none_layouts", {{4, 5}, Layout::transposed}, {{4, 5}, Layout::stepped}, 0);
  add("empty_batch", {{0, 5}}, {{0, 5}}, 0);
  add("some", {{4, 7}}, {{4, 7}}, 0.4);
  add("some_no_affine", {{4, 7}}, {{4, 7}}, 0.4, 0);
  add("some_no_bias", {{4, 7}}, {{4, 7}}, 0.4, 1);
  add("some_layouts", {{4, 7}, Layout::sliced}, {{4, 7}, Layout::transposed}, 0.4);
  add("some_empty_batch", {{0, 5}}, {{0, 5}}, 0.4);
  add("all", {{4, 5}}, {{4, 5}}, 1);
  add("wide", {{67, 301}}, {{67, 301}}, 0.1, 2, false);
}

void add_gelu(Cases& cases) {
  using enum core::GeluApproximation;
  for (const auto& [suffix, approximation] : {std::pair("", none), std::pair("_tanh", tanh)}) {
    const auto add = [&, a = approximation](const std::string& name, const InputSpec& x) {
      cases.push_back({"gelu", name + suffix, {x}, [a](const Inputs& in) { return gelu(in[0], a); }});
    };
    add("matrix", {{3, 4}});
    add("scalar", {Shape{}});
    add("empty", {{0, 3}});
    add("transposed", {{2, 3, 5}, Layout::transposed});
    add("stepped", {{3, 4}, Layout::stepped});
    add("channels_last", {{2, 3, 4, 5}, Layout::channels_last});
    const auto add_biased = [&, a = approximation](const std::string& name, const InputSpec& x,
                                                   bool finite_differences = true) {
      cases.push_back({"bias_gelu",
                       name + suffix,
                       {x, {{x.shape.back()}}},
                       [a](const Inputs& in) { return bias_gelu(in[0], in[1], a); },
                       finite_differences});
    };
    add_biased("matrix", {{3, 4}});
    add_biased("sequences", {{2, 3, 5}});
    add_biased("vector", {{6}});
    add_biased("size1", {{3, 1}});
    add_biased("empty_batch", {{0, 3}});
    add_biased("empty_rows", {{3, 0}});
    add_biased("transposed", {{3, 4}, Layout::transposed});
    add_biased("sliced", {{3, 4}, Layout::sliced});
    add_biased("wide", {{67, 301}}, false);
  }
}

}  // namespace

Cases transformer_cases() {
  Cases cases;
  add_layer_norm(cases);
  add_dropout_add_layer_norm(cases);
  add_gelu(cases);
  return cases;
}

}  // namespace tandem::autograd::testing
