// Cases of the pooling operators.
#include "tandem/autograd/ops.h"
#include "tests/autograd/operator_cases.h"

namespace tandem::autograd::testing {
namespace {

using Cases = std::vector<OperatorCase>;
using core::Pool2dOptions;

void add_windows(Cases& cases, const std::string& op,
                 const std::function<Variable(const Variable&, const Pool2dOptions&)>& f) {
  const auto add = [&](const char* name, const InputSpec& x, const Pool2dOptions& options,
                       bool finite_differences = true) {
    cases.push_back({op, name, {x}, [f, options](const Inputs& in) { return f(in[0], options); }, finite_differences});
  };
  add("plain", {{2, 3, 4, 6}}, {.kernel = {2, 2}});
  add("border_left_over", {{2, 3, 5, 7}}, {.kernel = {2, 2}});
  add("overlap", {{2, 3, 7, 7}}, {.kernel = {3, 3}, .stride = {2, 2}});
  add("padding", {{2, 3, 6, 7}}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  add("ceil_mode", {{1, 2, 5, 5}}, {.kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = true});
  add("ceil_mode_padding", {{1, 2, 6, 6}}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true});
  add("ceil_mode_window_outside", {{1, 2, 4, 4}},
      {.kernel = {2, 2}, .stride = {3, 3}, .padding = {1, 1}, .ceil_mode = true});
  add("rectangular", {{2, 3, 6, 5}}, {.kernel = {1, 3}, .stride = {2, 1}});
  add("gaps", {{1, 2, 7, 7}}, {.kernel = {2, 2}, .stride = {3, 3}});
  add("whole", {{2, 3, 4, 5}}, {.kernel = {4, 5}});
  add("size1", {{1, 1, 1, 1}}, {.kernel = {1, 1}});
  add("empty_batch", {{0, 3, 4, 6}}, {.kernel = {2, 2}});
  add("channels_last", {{2, 3, 4, 6}, Layout::channels_last}, {.kernel = {2, 2}});
  add("channels_last_overlap", {{2, 3, 6, 7}, Layout::channels_last},
      {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  add("transposed", {{2, 3, 4, 6}, Layout::transposed}, {.kernel = {2, 2}});
  add("sliced", {{2, 3, 4, 6}, Layout::sliced}, {.kernel = {2, 2}});
  add("stepped", {{2, 3, 4, 6}, Layout::stepped}, {.kernel = {2, 2}});
  add("wide", {{2, 37, 6, 7}, Layout::channels_last}, {.kernel = {2, 2}}, false);
  add("wide_overlap", {{2, 37, 6, 7}, Layout::channels_last}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
      false);
}

void add_adaptive(Cases& cases, const std::string& op, Variable (*f)(const Variable&, std::array<std::int64_t, 2>)) {
  const auto add = [&](const char* name, const InputSpec& x, std::array<std::int64_t, 2> size,
                       bool finite_differences = true) {
    cases.push_back({op, name, {x}, [f, size](const Inputs& in) { return f(in[0], size); }, finite_differences});
  };
  add("global", {{2, 3, 4, 5}}, {1, 1});
  add("uneven", {{2, 3, 5, 7}}, {3, 2});
  add("same", {{2, 3, 4, 5}}, {4, 5});
  add("larger", {{1, 2, 3, 3}}, {5, 4});
  add("size1", {{1, 1, 1, 1}}, {1, 1});
  add("empty_batch", {{0, 3, 4, 5}}, {2, 2});
  add("channels_last", {{2, 3, 5, 7}, Layout::channels_last}, {3, 2});
  add("channels_last_global", {{2, 3, 4, 5}, Layout::channels_last}, {1, 1});
  add("transposed", {{2, 3, 5, 7}, Layout::transposed}, {2, 3});
  add("sliced", {{2, 3, 5, 7}, Layout::sliced}, {1, 1});
  add("wide", {{2, 37, 5, 7}, Layout::channels_last}, {1, 1}, false);
}

}  // namespace

Cases pooling_cases() {
  Cases cases;
  add_windows(cases, "max_pool2d",
              [](const Variable& x, const Pool2dOptions& options) { return max_pool2d(x, options); });
  cases.push_back({"max_pool2d",
                   "kinks",
                   {{{1, 2, 4, 4}}},
                   [](const Inputs& in) {
                     return max_pool2d(in[0], {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
                   },
                   false});
  add_windows(cases, "avg_pool2d",
              [](const Variable& x, const Pool2dOptions& options) { return avg_pool2d(x, options); });
  for (const bool ceil_mode : {false, true})
    cases.push_back({"avg_pool2d",
                     ceil_mode ? "without_pad_ceil_mode" : "without_pad",
                     {{{2, 3, 6, 6}}},
                     [ceil_mode](const Inputs& in) {
                       return avg_pool2d(
                           in[0], {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = ceil_mode},
                           /*count_include_pad=*/false);
                     }});
  add_adaptive(cases, "adaptive_avg_pool2d", adaptive_avg_pool2d);
  add_adaptive(cases, "adaptive_max_pool2d", adaptive_max_pool2d);
  return cases;
}

}  // namespace tandem::autograd::testing
