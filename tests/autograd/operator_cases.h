// One table of cases for all operators of autograd/ops.h. Three tests run down it: finite differences in float64,
// float32 and bfloat16 against float64 (gradcheck_test.cpp), and golden values (golden_test.cpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tandem/autograd/variable.h"

namespace tandem::autograd::testing {

using Inputs = std::vector<Variable>;

/// How an input lies in memory. Its values are the same in any.
enum class Layout { contiguous, transposed, sliced, stepped, channels_last };

struct InputSpec {
  Shape shape;
  Layout layout = Layout::contiguous;
  bool positive = false;  ///< values in (0.3, 2.5), for logarithms and divisors; otherwise about -2 ... 2, no two equal
};

struct OperatorCase {
  std::string op;    ///< its name in ops.h
  std::string name;  ///< of the case, unique for the operator; golden values are stored as "op.name.*"
  std::vector<InputSpec> inputs;
  std::function<Variable(const Inputs&)> function;
  /// False where they do not apply or take too long: at kinks, through float32, for big shapes.
  bool finite_differences = true;
};

/// All of them, an operator's cases one after another.
const std::vector<OperatorCase>& operator_cases();

// By family; operator_cases() joins them.
std::vector<OperatorCase> elementwise_cases();
std::vector<OperatorCase> matrix_cases();
std::vector<OperatorCase> pooling_cases();
std::vector<OperatorCase> normalization_cases();
std::vector<OperatorCase> transformer_cases();
std::vector<OperatorCase> movement_cases();

/// `values` with the same shape and dtype in memory of its own, laid out as asked.
Tensor arranged(const Tensor& values, Layout layout);
/// Reproducible float64 values for a spec; `seed` tells the inputs of one case apart.
Tensor make_values(const InputSpec& spec, int seed);

// Constants that the golden values were made with, too (tests/golden/make_golden.py has the same formulas).
/// int64, element i = (7 i + 3) mod `bound`.
Tensor make_indices(const Shape& shape, std::int64_t bound);
/// bool, true at every third element, from the first.
Tensor make_condition(const Shape& shape);
/// Element i = first + step * i.
Tensor make_ramp(std::int64_t n, double first, double step, DType dtype);

/// max |actual - expected| where both are finite, infinity where exactly one is not or the signs of infinities differ.
/// NaN equals NaN.
double largest_difference(const Tensor& actual, const Tensor& expected);
double largest_magnitude(const Tensor& tensor);

}  // namespace tandem::autograd::testing
