// Operators against PyTorch: outputs and gradients over the table of cases, in float64 and float32.
#include <gtest/gtest.h>

#include <map>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/ops.h"
#include "tests/autograd/operator_cases.h"
#include "tests/golden/golden_file.h"

namespace tandem::autograd::testing {
namespace {

using tandem::testing::expect_near;
using tandem::testing::GoldenFile;

bool has_golden(const GoldenFile& file, const OperatorCase& c) { return file.has(c.op + "." + c.name + ".out"); }

void check_case(const OperatorCase& c, GoldenFile& file, double tolerance) {
  const std::string prefix = c.op + "." + c.name + ".";
  Inputs inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& values = file[prefix + "in" + std::to_string(i)];
    ASSERT_EQ(values.shape(), c.inputs[i].shape) << "the table and make_golden.py disagree about input " << i;
    inputs.emplace_back(arranged(values, c.inputs[i].layout), true);
  }
  const Variable output = c.function(inputs);
  expect_near(output.data(), file[prefix + "out"], tolerance, "output", 0.1);
  output.backward({.gradient = file[prefix + "dout"]});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_near(inputs[i].grad(), file[prefix + "din" + std::to_string(i)], tolerance,
                "gradient of input " + std::to_string(i), 0.1);
}

void check_all(const std::string& name, double tolerance) {
  GoldenFile file(name);
  for (const OperatorCase& c : operator_cases()) {
    if (!has_golden(file, c)) continue;
    SCOPED_TRACE(c.op + "." + c.name);
    try {
      check_case(c, file, tolerance);
    } catch (const core::Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  file.expect_all_read();
}

TEST(OperatorsLikePyTorch, Float64) { check_all("operators_float64.safetensors", 1e-10); }
TEST(OperatorsLikePyTorch, Float32) { check_all("operators_float32.safetensors", 1e-5); }

TEST(OperatorsLikePyTorch, EveryOperatorHasGoldenValues) {
  const GoldenFile file("operators_float64.safetensors");
  std::map<std::string, int> golden;
  for (const OperatorCase& c : operator_cases()) golden[c.op] += has_golden(file, c);
  golden.erase("dropout");  // draws its own random numbers
  for (const auto& [op, count] : golden) EXPECT_GT(count, 0) << op << " is compared with PyTorch nowhere";
}

}  // namespace
}  // namespace tandem::autograd::testing
