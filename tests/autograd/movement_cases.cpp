// Cases of the operators that move elements: reshape and its family, gather, embedding, cat.
#include "tandem/autograd/ops.h"
#include "tests/autograd/operator_cases.h"

namespace tandem::autograd::testing {
namespace {

using Cases = std::vector<OperatorCase>;

void add_views(Cases& cases) {
  const auto add = [&](const char* op, const char* name, const InputSpec& x, auto f) {
    cases.push_back({op, name, {x}, [f](const Inputs& in) { return f(in[0]); }});
  };
  using V = const Variable&;
  add("reshape", "plain", {{2, 6}}, [](V x) { return reshape(x, {3, 4}); });
  add("reshape", "inferred", {{2, 6}}, [](V x) { return reshape(x, {4, -1}); });
  add("reshape", "scalar", {{1, 1}}, [](V x) { return reshape(x, {}); });
  add("reshape", "empty", {{0, 6}}, [](V x) { return reshape(x, {3, 0}); });
  add("reshape", "transposed", {{3, 4}, Layout::transposed}, [](V x) { return reshape(x, {2, 6}); });
  add("reshape", "channels_last", {{2, 3, 4, 5}, Layout::channels_last}, [](V x) { return reshape(x, {2, 3, 20}); });
  add("flatten", "plain", {{2, 3, 4}}, [](V x) { return flatten(x); });
  add("flatten", "all", {{2, 3, 4}}, [](V x) { return flatten(x, 0); });
  add("flatten", "negative", {{2, 3, 4}}, [](V x) { return flatten(x, -2); });
  add("flatten", "empty", {{0, 3, 4}}, [](V x) { return flatten(x); });
  add("flatten", "channels_last", {{2, 3, 4, 5}, Layout::channels_last}, [](V x) { return flatten(x); });
  add("flatten", "stepped", {{2, 3, 4}, Layout::stepped}, [](V x) { return flatten(x); });
  add("transpose", "plain", {{2, 3, 4}}, [](V x) { return transpose(x, 0, 1); });
  add("transpose", "negative", {{2, 3, 4}}, [](V x) { return transpose(x, -1, 0); });
  add("transpose", "itself", {{2, 3}}, [](V x) { return transpose(x, 1, 1); });
  add("transpose", "transposed", {{3, 4}, Layout::transposed}, [](V x) { return transpose(x, 0, 1); });
  add("transpose", "empty", {{0, 3}}, [](V x) { return transpose(x, 0, 1); });
  add("permute", "plain", {{2, 3, 4}}, [](V x) { return permute(x, {2, 0, 1}); });
  add("permute", "negative", {{2, 3, 4}}, [](V x) { return permute(x, {-1, 0, -2}); });
  add("permute", "channels_last", {{2, 3, 4, 5}, Layout::channels_last}, [](V x) { return permute(x, {0, 2, 3, 1}); });
  add("slice", "plain", {{3, 6}}, [](V x) { return slice(x, 1, 1, 5); });
  add("slice", "negative", {{3, 6}}, [](V x) { return slice(x, -1, -4, -1); });
  add("slice", "step", {{3, 6}}, [](V x) { return slice(x, 1, 1, 6, 2); });
  add("slice", "past_the_end", {{3, 6}}, [](V x) { return slice(x, 0, 1, 100); });
  add("slice", "nothing", {{3, 6}}, [](V x) { return slice(x, 1, 4, 2); });
  add("slice", "stepped", {{3, 6}, Layout::stepped}, [](V x) { return slice(x, 1, 0, 6, 3); });
  add("slice", "channels_last", {{2, 3, 4, 5}, Layout::channels_last}, [](V x) { return slice(x, 2, 1, 3); });
  add("select", "plain", {{3, 4}}, [](V x) { return select(x, 1, 2); });
  add("select", "negative", {{2, 3, 4}}, [](V x) { return select(x, -2, -1); });
  add("select", "to_scalar", {{4}}, [](V x) { return select(x, 0, 3); });
  add("select", "transposed", {{3, 4}, Layout::transposed}, [](V x) { return select(x, 0, 1); });
  add("squeeze", "plain", {{2, 1, 3}}, [](V x) { return squeeze(x, 1); });
  add("squeeze", "negative", {{2, 3, 1}, Layout::transposed}, [](V x) { return squeeze(x, -1); });
  add("unsqueeze", "plain", {{2, 3}}, [](V x) { return unsqueeze(x, 1); });
  add("unsqueeze", "negative", {{2, 3}, Layout::transposed}, [](V x) { return unsqueeze(x, -1); });
  add("unsqueeze", "scalar", {Shape{}}, [](V x) { return unsqueeze(x, 0); });
  add("expand", "plain", {{2, 1, 3}}, [](V x) { return expand(x, {2, 4, 3}); });
  add("expand", "in_front", {{2, 1}}, [](V x) { return expand(x, {3, 2, 4}); });
  add("expand", "scalar", {Shape{}}, [](V x) { return expand(x, {2, 3}); });
  add("expand", "to_nothing", {{2, 1}}, [](V x) { return expand(x, {2, 0}); });
  add("expand", "then_used", {{3, 1}}, [](V x) { return square(expand(x, {3, 4})); });
  add("contiguous", "already", {{3, 4}}, [](V x) { return contiguous(x); });
  add("contiguous", "transposed", {{3, 4}, Layout::transposed}, [](V x) { return contiguous(x); });
  add("contiguous", "to_channels_last", {{2, 3, 4, 5}},
      [](V x) { return contiguous(x, core::MemoryFormat::channels_last); });
  add("contiguous", "from_channels_last", {{2, 3, 4, 5}, Layout::channels_last}, [](V x) { return contiguous(x); });
}

void add_gather(Cases& cases) {
  const auto add = [&](const char* name, const InputSpec& x, int dim, const Shape& index_shape) {
    const std::int64_t bound = x.shape[core::normalize_dim("gather", dim, x.shape.rank())];
    cases.push_back({"gather", name, {x}, [dim, index = make_indices(index_shape, bound)](const Inputs& in) {
                       return gather(in[0], dim, index);
                     }});
  };
  add("rows", {{3, 4}}, 0, {2, 4});
  add("columns", {{3, 4}}, 1, {3, 6});  // more than there are: some repeat
  add("negative", {{2, 3, 4}}, -2, {2, 2, 3});
  add("smaller", {{3, 4}}, 1, {2, 2});
  add("vector", {{5}}, 0, {7});
  add("size1", {{1, 1}}, 0, {1, 1});
  add("nothing", {{3, 4}}, 1, {3, 0});
  add("transposed", {{3, 4}, Layout::transposed}, 1, {3, 2});
  add("stepped", {{3, 4}, Layout::stepped}, 0, {5, 4});
}

void add_embedding(Cases& cases) {
  const auto add = [&](const char* name, const InputSpec& weight, const Shape& indices, std::int64_t padding_idx = -1) {
    cases.push_back({"embedding",
                     name,
                     {weight},
                     [padding_idx, i = make_indices(indices, weight.shape[0])](const Inputs& in) {
                       return embedding(in[0], i, padding_idx);
                     },
                     padding_idx < 0});  // the row that gets no gradient by decree has one by differences
  };
  add("vector", {{5, 3}}, {4});
  add("repeated", {{3, 4}}, {2, 6});
  add("padding", {{5, 3}}, {2, 5}, 3);
  add("scalar", {{5, 3}}, {});
  add("size1", {{1, 1}}, {1});
  add("nothing", {{5, 3}}, {0});
  add("transposed", {{5, 3}, Layout::transposed}, {6});
  add("sliced", {{5, 3}, Layout::sliced}, {6});
}

void add_cat(Cases& cases) {
  const auto add = [&](const char* name, const std::vector<InputSpec>& parts, int dim) {
    cases.push_back({"cat", name, parts, [dim](const Inputs& in) { return cat(in, dim); }});
  };
  add("rows", {{{2, 3}}, {{1, 3}}}, 0);
  add("columns", {{{2, 3}}, {{2, 1}}, {{2, 4}}}, 1);
  add("negative", {{{2, 3, 2}}, {{2, 1, 2}}}, -2);
  add("one", {{{2, 3}}}, 0);
  add("with_empty", {{{2, 3}}, {{0, 3}}, {{1, 3}}}, 0);
  add("layouts", {{{2, 3}, Layout::transposed}, {{2, 3}, Layout::stepped}, {{2, 3}, Layout::sliced}}, 1);
  add("channels_last", {{{2, 3, 4, 5}, Layout::channels_last}, {{2, 2, 4, 5}, Layout::channels_last}}, 1);
  cases.push_back({"cat", "twice_the_same", {{{2, 3}}}, [](const Inputs& in) {
                     return cat({in[0], in[0]}, 0);
                   }});
}

}  // namespace

Cases movement_cases() {
  Cases cases;
  add_views(cases);
  add_gather(cases);
  add_embedding(cases);
  add_cat(cases);
  return cases;
}

}  // namespace tandem::autograd::testing
