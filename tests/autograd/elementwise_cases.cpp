// Cases of the unary and binary operators, where, and the reductions.
#include "tandem/autograd/ops.h"
#include "tests/autograd/operator_cases.h"

namespace tandem::autograd::testing {
namespace {

using Cases = std::vector<OperatorCase>;
using Unary = std::function<Variable(const Variable&)>;
using Binary = std::function<Variable(const Variable&, const Variable&)>;

void add_unary(Cases& cases, const std::string& op, const Unary& f, bool positive = false) {
  const auto function = [f](const Inputs& in) { return f(in[0]); };
  const auto add = [&](const char* name, const Shape& shape, Layout layout = Layout::contiguous) {
    cases.push_back({op, name, {{shape, layout, positive}}, function});
  };
  add("matrix", {3, 4});
  add("scalar", {});
  add("size1", {1, 1});
  add("empty", {0, 3});
  add("transposed", {2, 3, 5}, Layout::transposed);
  add("sliced", {3, 5}, Layout::sliced);
  add("stepped", {3, 5}, Layout::stepped);
  add("channels_last", {2, 3, 4, 5}, Layout::channels_last);
  cases.push_back({op, "long", {{{50, 67}, Layout::contiguous, positive}}, function, false});
}

// Values where the gradient jumps; given by the golden file alone.
void add_kinks(Cases& cases, const std::string& op, const Unary& f) {
  cases.push_back({op, "kinks", {{{7}}}, [f](const Inputs& in) { return f(in[0]); }, false});
}

void add_binary(Cases& cases, const std::string& op, const Binary& f, bool positive_b = false) {
  const auto add = [&](const char* name, const InputSpec& a, InputSpec b) {
    b.positive = positive_b;
    cases.push_back({op, name, {a, b}, [f](const Inputs& in) { return f(in[0], in[1]); }});
  };
  add("same", {{3, 4}}, {{3, 4}});
  add("row", {{2, 3, 4}}, {{4}});
  add("row_first", {{4}}, {{2, 3, 4}});
  add("outer", {{3, 1}}, {{1, 4}});
  add("scalar", {{2, 3}}, {Shape{}});
  add("scalars", {Shape{}}, {Shape{}});
  add("size1", {{1, 1}}, {{1}});
  add("empty", {{0, 3}}, {{3}});
  add("empty_by_one", {{2, 0}}, {{2, 1}});
  add("transposed", {{3, 4}, Layout::transposed}, {{3, 4}});
  add("sliced_and_stepped", {{3, 4}, Layout::sliced}, {{3, 4}, Layout::stepped});
  add("channels_last", {{2, 3, 4, 5}, Layout::channels_last}, {{2, 3, 4, 5}, Layout::channels_last});
  add("channels_last_by_channel", {{2, 3, 4, 5}, Layout::channels_last}, {{3, 1, 1}});
  add("two_layouts", {{2, 3, 2, 2}, Layout::channels_last}, {{2, 3, 2, 2}});
  cases.push_back({op,
                   "long",
                   {{{40, 67}}, {{67}, Layout::contiguous, positive_b}},
                   [f](const Inputs& in) { return f(in[0], in[1]); },
                   false});
  cases.push_back({op,
                   "with_itself",
                   {{{3, 4}, Layout::contiguous, true}},
                   [f](const Inputs& in) { return f(in[0], in[0]); },
                   op != "maximum" && op != "minimum"});
}

void add_reduction(Cases& cases, const std::string& op,
                   Variable (*f)(const Variable&, std::initializer_list<int>, bool)) {
  const auto add = [&](const char* name, const InputSpec& x, auto reduce) {
    cases.push_back({op, name, {x}, [reduce](const Inputs& in) { return reduce(in[0]); }});
  };
  add("all", {{2, 3, 4}}, [f](const Variable& x) { return f(x, {}, false); });
  add("all_kept", {{2, 3, 4}}, [f](const Variable& x) { return f(x, {}, true); });
  add("scalar", {Shape{}}, [f](const Variable& x) { return f(x, {}, false); });
  add("first", {{3, 4}}, [f](const Variable& x) { return f(x, {0}, false); });
  add("last", {{3, 4}}, [f](const Variable& x) { return f(x, {-1}, false); });
  add("middle_kept", {{2, 3, 4}}, [f](const Variable& x) { return f(x, {-2}, true); });
  add("two", {{2, 3, 4}}, [f](const Variable& x) { return f(x, {2, 0}, false); });
  add("size1", {{1, 1}}, [f](const Variable& x) { return f(x, {1}, false); });
  add("empty_kept_rows", {{0, 3}}, [f](const Variable& x) { return f(x, {1}, false); });
  add("transposed", {{3, 4}, Layout::transposed}, [f](const Variable& x) { return f(x, {0}, false); });
  add("sliced", {{3, 4}, Layout::sliced}, [f](const Variable& x) { return f(x, {1}, false); });
  add("stepped", {{3, 4}, Layout::stepped}, [f](const Variable& x) { return f(x, {}, false); });
  add("channels_last", {{2, 3, 4, 5}, Layout::channels_last}, [f](const Variable& x) {
    return f(x, {0, 2, 3}, false);
  });
  add("channels_last_spatial", {{2, 3, 4, 5}, Layout::channels_last}, [f](const Variable& x) {
    return f(x, {-1, -2}, true);
  });
}

void add_extremum(Cases& cases, const std::string& op, Variable (*f)(const Variable&, int, bool)) {
  const auto add = [&](const char* name, const InputSpec& x, int dim, bool keepdim, bool finite_differences = true) {
    cases.push_back({op, name, {x}, [=](const Inputs& in) { return f(in[0], dim, keepdim); }, finite_differences});
  };
  add("first", {{3, 4}}, 0, false);
  add("last", {{3, 4}}, -1, false);
  add("middle_kept", {{2, 3, 4}}, 1, true);
  add("size1", {{1, 1}}, 0, false);
  add("empty", {{0, 3}}, 1, false);
  add("transposed", {{3, 4}, Layout::transposed}, 1, false);
  add("sliced", {{3, 4}, Layout::sliced}, 1, true);
  add("stepped", {{3, 4}, Layout::stepped}, 0, false);
  add("channels_last", {{2, 3, 4, 5}, Layout::channels_last}, 1, false);
  add("kinks", {{2, 4}}, 1, false, false);
}

void add_cast(Cases& cases) {
  for (const auto& [dtype, name] : {std::pair{DType::float32, "to_float32"}, {DType::bfloat16, "to_bfloat16"}})
    cases.push_back({"cast",
                     name,
                     {{{3, 4}, Layout::transposed}},
                     [dtype = dtype](const Inputs& in) { return cast(in[0], dtype); },
                     false});
  cases.push_back({"cast", "to_float64", {{{3, 4}}}, [](const Inputs& in) { return cast(in[0], DType::float64); }});
}

void add_where(Cases& cases) {
  const auto add = [&](const char* name, const Shape& condition, const InputSpec& a, const InputSpec& b) {
    cases.push_back(
        {"where", name, {a, b}, [c = make_condition(condition)](const Inputs& in) { return where(c, in[0], in[1]); }});
  };
  add("same", {3, 4}, {{3, 4}}, {{3, 4}});
  add("broadcast", {2, 1, 4}, {{3, 1}}, {{4}});
  add("scalar", {2, 3}, {Shape{}}, {{2, 3}});
  add("size1", {1}, {{1}}, {{1}});
  add("empty", {0, 3}, {{0, 3}}, {{3}});
  add("transposed", {3, 4}, {{3, 4}, Layout::transposed}, {{3, 4}, Layout::stepped});
  add("channels_last", {2, 3, 4, 5}, {{2, 3, 4, 5}, Layout::channels_last}, {{3, 1, 1}});
}

}  // namespace

Cases elementwise_cases() {
  Cases cases;
  add_unary(cases, "neg", neg);
  add_unary(cases, "abs", abs);
  add_kinks(cases, "abs", abs);
  add_unary(cases, "exp", exp);
  add_unary(cases, "log", log, true);
  add_unary(cases, "sqrt", sqrt, true);
  add_unary(cases, "square", square);
  add_unary(cases, "reciprocal", reciprocal, true);
  add_unary(cases, "relu", relu);
  add_kinks(cases, "relu", relu);
  add_unary(cases, "sigmoid", sigmoid);
  add_unary(cases, "tanh", tanh);
  add_unary(
      cases, "pow", [](const Variable& x) { return pow(x, 2.5); }, true);
  for (const double exponent : {0.0, 1.0, 3.0, -2.0}) {
    const std::string name = exponent < 0 ? "exponent_minus2" : "exponent" + std::to_string(static_cast<int>(exponent));
    cases.push_back({"pow", name, {{{2, 3}}}, [exponent](const Inputs& in) { return pow(in[0], exponent); }});
  }
  const Unary clamped = [](const Variable& x) { return clamp(x, -1, 0.5); };
  add_unary(cases, "clamp", clamped);
  add_cast(cases);
  add_binary(cases, "add", add);
  add_binary(cases, "sub", sub);
  add_binary(cases, "mul", mul);
  add_binary(cases, "div", div, true);
  for (const auto& [op, f] : {std::pair<const char*, Binary>{"maximum", maximum}, {"minimum", minimum}}) {
    add_binary(cases, op, f);
    cases.push_back({op, "kinks", {{{7}}, {{7}}}, [f = f](const Inputs& in) { return f(in[0], in[1]); }, false});
  }
  add_unary(cases, "add_scalar", [](const Variable& x) { return add_scalar(x, 1.25); });
  add_unary(cases, "mul_scalar", [](const Variable& x) { return mul_scalar(x, -1.25); });
  const auto add_operator = [&](const char* op, const char* name, const Binary& f) {
    cases.push_back(
        {op, name, {{{2, 3}}, {{3}, Layout::contiguous, true}}, [f](const Inputs& in) { return f(in[0], in[1]); }});
  };
  using V = const Variable&;
  add_operator("operator+", "all", [](V a, V b) { return (a + b) + (a + 2.0) + (3.0 + b); });
  add_operator("operator-", "all", [](V a, V b) { return (a - b) - (b - 2.0) - (3.0 - a) - (-b); });
  add_operator("operator*", "all", [](V a, V b) { return (a * b) * (b * 2.0) * (3.0 * a); });
  add_operator("operator/", "all", [](V a, V b) { return (a / b) / (2.0 / a) + a / 4.0; });
  add_where(cases);
  add_reduction(cases, "sum", sum);
  add_reduction(cases, "mean", mean);
  add_extremum(cases, "max", max);
  add_extremum(cases, "min", min);
  return cases;
}

}  // namespace tandem::autograd::testing
