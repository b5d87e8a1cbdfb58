// Cases of matmul, linear and conv2d.
#include "tandem/autograd/ops.h"
#include "tests/autograd/operator_cases.h"

namespace tandem::autograd::testing {
namespace {

using Cases = std::vector<OperatorCase>;

void add_matmul(Cases& cases) {
  const auto add = [&](const char* name, const InputSpec& a, const InputSpec& b, bool finite_differences = true) {
    cases.push_back(
        {"matmul", name, {a, b}, [](const Inputs& in) { return matmul(in[0], in[1]); }, finite_differences});
  };
  add("plain", {{3, 4}}, {{4, 5}});
  add("size1", {{1, 1}}, {{1, 1}});
  add("square", {{3, 3}}, {{3, 3}});
  add("row_by_column", {{1, 6}}, {{6, 1}});
  add("column_by_row", {{6, 1}}, {{1, 5}});
  add("batched", {{2, 3, 4}}, {{2, 4, 5}});
  add("broadcast", {{2, 1, 3, 4}}, {{5, 4, 2}});
  add("broadcast_matrix", {{3, 4}}, {{2, 4, 5}});
  add("batches_by_matrix", {{2, 3, 4}}, {{4, 5}});
  add("inner_zero", {{2, 0}}, {{0, 3}});
  add("empty", {{0, 3}}, {{3, 2}});
  add("empty_batch", {{0, 2, 3}}, {{3, 2}});
  add("transposed", {{3, 4}, Layout::transposed}, {{4, 5}, Layout::transposed});
  add("transposed_batches", {{2, 3, 4}, Layout::transposed}, {{2, 4, 5}});
  add("sliced", {{3, 4}, Layout::sliced}, {{4, 5}, Layout::sliced});
  add("stepped", {{3, 4}, Layout::stepped}, {{4, 5}});
  add("channels_last", {{2, 2, 3, 4}, Layout::channels_last}, {{2, 2, 4, 3}, Layout::channels_last});
  add("large", {{70, 33}}, {{33, 65}}, false);
  add("large_transposed", {{70, 33}, Layout::transposed}, {{33, 65}, Layout::transposed}, false);
  add("large_batched", {{3, 40, 33}}, {{3, 33, 50}}, false);
}

void add_linear(Cases& cases) {
  const auto add = [&](const char* name, const InputSpec& x, const InputSpec& weight, bool bias = true,
                       bool finite_differences = true) {
    std::vector<InputSpec> inputs{x, weight};
    if (bias) inputs.push_back({{weight.shape[0]}});
    cases.push_back({"linear", name, inputs,
                     [](const Inputs& in) { return linear(in[0], in[1], in.size() > 2 ? in[2] : Variable()); },
                     finite_differences});
  };
  add("plain", {{3, 4}}, {{5, 4}});
  add("no_bias", {{3, 4}}, {{5, 4}}, false);
  add("sequences", {{2, 3, 4}}, {{5, 4}});
  add("vector", {{4}}, {{5, 4}});
  add("size1", {{1, 1}}, {{1, 1}});
  add("square", {{3, 3}}, {{3, 3}});
  add("empty_batch", {{0, 4}}, {{5, 4}});
  add("transposed", {{3, 4}, Layout::transposed}, {{5, 4}, Layout::transposed});
  add("sliced", {{3, 4}, Layout::sliced}, {{5, 4}, Layout::sliced});
  add("stepped", {{2, 3, 4}, Layout::stepped}, {{5, 4}, Layout::stepped});
  add("large", {{33, 70}}, {{65, 70}}, true, false);
  add("large_transposed", {{33, 70}, Layout::transposed}, {{65, 70}, Layout::transposed}, true, false);
}

void add_conv2d(Cases& cases) {
  const auto add = [&](const char* name, const InputSpec& x, const InputSpec& weight,
                       const core::Conv2dOptions& options = {}, bool bias = true, bool finite_differences = true) {
    std::vector<InputSpec> inputs{x, weight};
    if (bias) inputs.push_back({{weight.shape[0]}});
    cases.push_back(
        {"conv2d", name, inputs,
         [options](const Inputs& in) { return conv2d(in[0], in[1], in.size() > 2 ? in[2] : Variable(), options); },
         finite_differences});
  };
  add("plain", {{2, 3, 6, 5}}, {{4, 3, 3, 3}});
  add("no_bias", {{2, 3, 6, 5}}, {{4, 3, 3, 3}}, {}, false);
  add("padding", {{2, 3, 4, 5}}, {{4, 3, 3, 3}}, {.padding = {1, 2}});
  add("stride", {{2, 3, 7, 6}}, {{4, 3, 3, 2}}, {.stride = {2, 3}});
  add("unused_border", {{1, 2, 6, 6}}, {{2, 2, 3, 3}}, {.stride = {2, 2}});
  add("dilation", {{2, 3, 7, 6}}, {{4, 3, 3, 2}}, {.dilation = {2, 3}});
  add("everything", {{2, 4, 8, 7}}, {{6, 2, 3, 3}},
      {.stride = {2, 1}, .padding = {2, 1}, .dilation = {2, 2}, .groups = 2});
  add("groups", {{2, 4, 5, 5}}, {{6, 2, 3, 3}}, {.groups = 2});
  add("depthwise", {{1, 3, 5, 5}}, {{6, 1, 3, 3}}, {.padding = {1, 1}, .groups = 3});
  add("pointwise", {{2, 3, 4, 4}}, {{5, 3, 1, 1}});
  add("kernel_is_input", {{2, 3, 4, 5}}, {{4, 3, 4, 5}});
  add("kernel_like_input", {{2, 3, 4, 5}}, {{2, 3, 4, 5}}, {.padding = {1, 2}});
  add("one_channel", {{2, 1, 6, 6}}, {{4, 1, 3, 3}});
  add("size1", {{1, 1, 1, 1}}, {{1, 1, 1, 1}});
  add("empty_batch", {{0, 3, 6, 5}}, {{4, 3, 3, 3}});
  add("relu", {{2, 3, 6, 5}}, {{4, 3, 3, 3}}, {.activation = core::Activation::relu});
  add("relu_no_bias", {{2, 3, 6, 5}}, {{4, 3, 3, 3}}, {.activation = core::Activation::relu}, false);
  add("channels_last", {{2, 3, 6, 5}, Layout::channels_last}, {{4, 3, 3, 3}}, {.padding = {1, 1}});
  add("channels_last_weight", {{2, 3, 6, 5}, Layout::channels_last}, {{4, 3, 3, 3}, Layout::channels_last});
  add("transposed", {{2, 3, 6, 5}, Layout::transposed}, {{4, 3, 3, 3}, Layout::transposed});
  add("sliced", {{2, 3, 6, 5}, Layout::sliced}, {{4, 3, 3, 3}});
  add("stepped", {{2, 3, 6, 5}, Layout::stepped}, {{4, 3, 3, 3}, Layout::stepped});
  add("wide", {{2, 16, 7, 6}, Layout::channels_last}, {{32, 16, 3, 3}}, {.padding = {1, 1}}, true, false);
  add("wide_groups", {{2, 32, 7, 6}, Layout::channels_last}, {{32, 16, 3, 3}}, {.stride = {2, 2}, .groups = 2}, true,
      false);
  add("wide_one_channel", {{3, 1, 12, 12}}, {{32, 1, 3, 3}}, {.activation = core::Activation::relu}, true, false);
}

}  // namespace

Cases matrix_cases() {
  Cases cases;
  add_matmul(cases);
  add_linear(cases);
  add_conv2d(cases);
  return cases;
}

}  // namespace tandem::autograd::testing
