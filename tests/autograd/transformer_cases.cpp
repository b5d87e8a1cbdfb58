// Cases of what transformers are made of: layer norm, alone and after dropout and add, GELU, attention.
#include <optional>

#include "tandem/autograd/ops.h"
#include "tests/autograd/operator_cases.h"
#include "tests/elements.h"

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
  add("vector", {{6}}, {{6}}, 0.4);
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

enum class Mask { none, some, padding, all };

// int64 [N, T]. Some: all but each third place, from the first; padding: sequence n has n + 1 places; all: those of the
// last sequence are masked.
Tensor make_mask(Mask kind, std::int64_t batch, std::int64_t places) {
  if (kind == Mask::none) return {};
  Tensor mask = Tensor::full({batch, places}, 1, {.dtype = DType::int64});
  testing::change<std::int64_t>(mask, [&](std::int64_t* m) {
    for (std::int64_t i = 0; i < batch * places; ++i) {
      if (kind == Mask::some && i % 3 == 0) m[i] = 0;
      if (kind == Mask::padding && i % places > i / places) m[i] = 0;
      if (kind == Mask::all && i / places == batch - 1) m[i] = 0;
    }
  });
  return mask;
}

void add_attention(Cases& cases) {
  struct Setting {
    std::int64_t heads = 2;
    Mask mask = Mask::none;
    std::optional<double> scale{};
    double p = 0;
    bool boolean = false;
  };
  const auto add = [&](const char* name, const std::vector<InputSpec>& qkv, const Setting& setting,
                       bool finite_differences = true) {
    Tensor mask = make_mask(setting.mask, qkv[1].shape[0], qkv[1].shape[1]);
    if (setting.boolean) mask = mask.to(DType::boolean);
    cases.push_back({"attention", name, qkv,
                     [=](const Inputs& in) {
                       return attention(in[0], in[1], in[2],
                                        {.heads = setting.heads,
                                         .mask = mask,
                                         .scale = setting.scale,
                                         .dropout_p = setting.p,
                                         .stream = core::RandomContext{.seed = 5}.stream(2)});
                     },
                     finite_differences});
  };
  const auto self = [](std::int64_t n, std::int64_t s, std::int64_t d, Layout layout = Layout::contiguous) {
    return std::vector<InputSpec>(3, {{n, s, d}, layout});
  };
  const auto cross = [](std::int64_t n, std::int64_t s, std::int64_t t, std::int64_t d) {
    return std::vector<InputSpec>{{{n, s, d}}, {{n, t, d}}, {{n, t, d}}};
  };
  add("one_head", self(2, 3, 4), {.heads = 1});
  add("heads", self(2, 5, 6), {});
  add("cross", cross(2, 3, 5, 6), {.heads = 3});
  add("cross_longer_queries", cross(2, 5, 2, 4), {});
  add("scale", self(1, 4, 4), {.scale = 0.25});
  add("mask", self(2, 5, 4), {.mask = Mask::some});
  add("mask_bool", self(2, 5, 4), {.mask = Mask::some, .boolean = true});
  add("padding", self(3, 5, 4), {.mask = Mask::padding});
  add("all_masked", self(2, 4, 4), {.mask = Mask::all});
  add("dropout", self(2, 5, 4), {.p = 0.3});
  add("dropout_mask", cross(2, 3, 7, 4), {.mask = Mask::padding, .p = 0.3});
  add("dropout_all", self(1, 3, 4), {.p = 1});
  add("size1", self(1, 1, 1), {.heads = 1});
  add("one_place", cross(2, 3, 1, 4), {});
  add("one_query", cross(2, 1, 3, 4), {});
  add("empty_batch", self(0, 3, 4), {});
  add("no_queries", cross(2, 0, 3, 4), {});
  add("no_places", cross(2, 3, 0, 4), {});
  add("transposed", self(2, 3, 4, Layout::transposed), {});
  add("sliced", self(2, 3, 4, Layout::sliced), {});
  add("stepped", self(2, 3, 4, Layout::stepped), {});
  add("long", cross(2, 70, 131, 24), {.mask = Mask::some, .p = 0.1}, false);
  add("long_padding", self(3, 150, 34), {.mask = Mask::padding}, false);
}

}  // namespace

Cases transformer_cases() {
  Cases cases;
  add_layer_norm(cases);
  add_dropout_add_layer_norm(cases);
  add_gelu(cases);
  add_attention(cases);
  return cases;
}

}  // namespace tandem::autograd::testing
