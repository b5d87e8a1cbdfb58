// Cases of batch norm, dropout, the softmaxes and cross-entropy.
#include <algorithm>

#include "tandem/autograd/ops.h"
#include "tests/autograd/operator_cases.h"
#include "tests/elements.h"

namespace tandem::autograd::testing {
namespace {

using Cases = std::vector<OperatorCase>;
constexpr double kEps = 1e-5;

// Inputs: x, then weight, then bias, as many as there are.
void add_batch_norm(Cases& cases, const std::string& op,
                    const std::function<Variable(const Inputs&, Variable, Variable)>& f) {
  const auto add = [&](const char* name, const InputSpec& x, int parameters = 2, bool finite_differences = true) {
    std::vector<InputSpec> inputs{x};
    for (int i = 0; i < parameters; ++i) inputs.push_back({{x.shape[1]}});
    cases.push_back({op, name, inputs,
                     [f](const Inputs& in) {
                       return f(in, in.size() > 1 ? in[1] : Variable(), in.size() > 2 ? in[2] : Variable());
                     },
                     finite_differences});
  };
  add("matrix", {{4, 3}});
  add("images", {{2, 3, 4, 5}});
  add("no_affine", {{2, 3, 4, 5}}, 0);
  add("no_bias", {{2, 3, 4, 5}}, 1);
  add("one_channel", {{2, 1, 3, 3}});
  add("one_pixel", {{3, 4, 1, 1}});
  add("one_image", {{1, 2, 2, 3}});
  add("channels_last", {{2, 3, 4, 5}, Layout::channels_last});
  add("channels_last_no_affine", {{2, 3, 4, 5}, Layout::channels_last}, 0);
  add("transposed", {{2, 3, 4, 5}, Layout::transposed});
  add("sliced", {{2, 3, 4, 5}, Layout::sliced});
  add("stepped", {{4, 3}, Layout::stepped});
  add("wide", {{4, 37, 9, 8}}, 2, false);
  add("wide_channels_last", {{4, 37, 9, 8}, Layout::channels_last}, 2, false);
}

// With what follows in the same pass. Inputs: x, weight, bias, and the residual where there is one.
void add_fused_batch_norm(Cases& cases, const std::string& op,
                          const std::function<Variable(const Inputs&, const BatchNormFusion&)>& f) {
  for (const bool relu : {false, true})
    for (const bool add : {false, true}) {
      if (!relu && !add) continue;
      const std::string fused = std::string(add ? "add" : "") + (relu && add ? "_" : "") + (relu ? "relu" : "");
      const auto add_case = [&](const std::string& name, const InputSpec& x, bool finite_differences = true) {
        std::vector<InputSpec> inputs{x, {{x.shape[1]}}, {{x.shape[1]}}};
        if (add) inputs.push_back(x);
        cases.push_back(
            {op, fused + name, inputs,
             [=](const Inputs& in) { return f(in, {.relu = relu, .residual = in.size() > 3 ? in[3] : Variable()}); },
             finite_differences});
      };
      add_case("", {{2, 3, 4, 5}});
      add_case("_matrix", {{4, 3}});
      add_case("_channels_last", {{2, 3, 4, 5}, Layout::channels_last});
      add_case("_sliced", {{2, 3, 4, 5}, Layout::sliced});
      if (!relu) add_case("_wide_channels_last", {{4, 37, 9, 8}, Layout::channels_last}, false);
    }
}

Variable inference(const Inputs& in, const Variable& weight, const Variable& bias, const BatchNormFusion& fusion = {}) {
  const std::int64_t channels = in[0].size(1);
  const DType dtype =
      in[0].dtype() == DType::float64 ? DType::float64 : DType::float32;  // statistics are kept in the compute type
  return batch_norm_inference(in[0], weight, bias, make_ramp(channels, -0.25, 0.125, dtype),
                              make_ramp(channels, 0.5, 0.25, dtype), kEps, fusion);
}

void add_dropout(Cases& cases) {
  const auto add = [&](const char* name, const InputSpec& x, double p) {
    cases.push_back({"dropout", name, {x}, [p](const Inputs& in) {
                       return dropout(in[0], p, core::RandomContext{.seed = 5}.stream(2));
                     }});
  };
  add("some", {{5, 7}}, 0.4);
  add("none", {{5, 7}}, 0);
  add("all", {{5, 7}}, 1);
  add("scalar", {Shape{}}, 0.5);
  add("empty", {{0, 3}}, 0.5);
  add("transposed", {{5, 7}, Layout::transposed}, 0.4);
  add("sliced", {{5, 7}, Layout::sliced}, 0.4);
  add("channels_last", {{2, 3, 4, 5}, Layout::channels_last}, 0.4);
}

void add_softmax(Cases& cases, const std::string& op, Variable (*f)(const Variable&, int)) {
  const auto add = [&](const char* name, const InputSpec& x, int dim, bool finite_differences = true) {
    cases.push_back({op, name, {x}, [f, dim](const Inputs& in) { return f(in[0], dim); }, finite_differences});
  };
  add("last", {{3, 4}}, 1);
  add("negative_dim", {{2, 3, 4}}, -1);
  add("first", {{3, 4}}, 0);
  add("middle", {{2, 3, 4}}, 1);
  add("size1", {{3, 1}}, 1);
  add("empty_rows", {{0, 3}}, 1);
  add("empty_dim", {{3, 0}}, 1);
  add("transposed", {{3, 4}, Layout::transposed}, 1);
  add("sliced", {{3, 4}, Layout::sliced}, 1);
  add("stepped", {{3, 4}, Layout::stepped}, 0);
  add("channels_last", {{2, 3, 4, 5}, Layout::channels_last}, 1);
  add("extreme", {{2, 4}}, 1, false);
  add("long", {{9, 131}}, -1, false);
}

Tensor with_ignored(Tensor target, std::int64_t ignored) {
  testing::change<std::int64_t>(target, [&](std::int64_t* t) {
    for (std::int64_t i = 1; i < target.numel(); i += 3) t[i] = ignored;
  });
  return target;
}

void add_cross_entropy(Cases& cases) {
  struct Setting {
    core::Reduction reduction = core::Reduction::mean;
    double label_smoothing = 0;
    bool ignore = false, weights = false;
  };
  const auto add = [&](const char* name, const InputSpec& logits, const Setting& setting,
                       bool finite_differences = true) {
    Shape target_shape;
    for (int dim = 0; dim < logits.shape.rank(); ++dim)
      if (dim != 1) target_shape.push_back(logits.shape[dim]);
    const std::int64_t classes = logits.shape[1], ignored = -7;
    Tensor target = make_indices(target_shape, classes);
    if (setting.ignore) target = with_ignored(target, ignored);
    cases.push_back({"cross_entropy",
                     name,
                     {logits},
                     [=](const Inputs& in) {
                       core::CrossEntropyOptions options{.ignore_index = ignored,
                                                         .label_smoothing = setting.label_smoothing,
                                                         .reduction = setting.reduction,
                                                         .class_weights = {}};
                       if (setting.weights) options.class_weights = make_ramp(classes, 0.5, 0.25, in[0].dtype());
                       return cross_entropy(in[0], target, options);
                     },
                     finite_differences});
  };
  using enum core::Reduction;
  add("mean", {{4, 5}}, {});
  add("sum", {{4, 5}}, {.reduction = sum});
  add("none", {{4, 5}}, {.reduction = none});
  add("smoothing", {{4, 5}}, {.label_smoothing = 0.1});
  add("ignore", {{4, 5}}, {.ignore = true});
  add("ignore_none", {{4, 5}}, {.reduction = none, .label_smoothing = 0.2, .ignore = true});
  add("weights", {{4, 5}}, {.weights = true});
  add("all", {{4, 5}}, {.label_smoothing = 0.1, .ignore = true, .weights = true});
  add("all_sum", {{4, 5}}, {.reduction = sum, .label_smoothing = 0.1, .ignore = true, .weights = true});
  add("all_none", {{4, 5}}, {.reduction = none, .label_smoothing = 0.1, .ignore = true, .weights = true});
  add("positions", {{2, 3, 4}}, {.label_smoothing = 0.1, .ignore = true, .weights = true});
  add("images_none", {{2, 3, 2, 2}}, {.reduction = none});
  add("images_channels_last", {{2, 3, 2, 2}, Layout::channels_last}, {.label_smoothing = 0.1});
  add("one_row", {{1, 3}}, {});
  add("one_class", {{3, 1}}, {});
  add("empty_sum", {{0, 3}}, {.reduction = sum});
  add("empty_none", {{0, 3}}, {.reduction = none});
  add("transposed", {{4, 5}, Layout::transposed}, {});
  add("sliced", {{4, 5}, Layout::sliced}, {});
  add("stepped", {{4, 5}, Layout::stepped}, {});
  add("extreme", {{2, 4}}, {}, false);
  add("long", {{33, 131}}, {.label_smoothing = 0.1}, false);
}

}  // namespace

Cases normalization_cases() {
  Cases cases;
  add_batch_norm(cases, "batch_norm_training", [](const Inputs& in, const Variable& weight, const Variable& bias) {
    return batch_norm_training(in[0], weight, bias, kEps);
  });
  add_batch_norm(cases, "batch_norm_inference", [](const Inputs& in, const Variable& weight, const Variable& bias) {
    return inference(in, weight, bias);
  });
  add_fused_batch_norm(cases, "batch_norm_training", [](const Inputs& in, const BatchNormFusion& fusion) {
    return batch_norm_training(in[0], in[1], in[2], kEps, nullptr, fusion);
  });
  cases.push_back({"batch_norm_training", "add_itself", {{{4, 3}}}, [](const Inputs& in) {
                     return batch_norm_training(in[0], {}, {}, kEps, nullptr, {.relu = true, .residual = in[0]});
                   }});
  add_fused_batch_norm(cases, "batch_norm_inference", [](const Inputs& in, const BatchNormFusion& fusion) {
    return inference(in, in[1], in[2], fusion);
  });
  add_dropout(cases);
  add_softmax(cases, "softmax", softmax);
  add_softmax(cases, "log_softmax", log_softmax);
  add_cross_entropy(cases);
  return cases;
}

}  // namespace tandem::autograd::testing
