// Gradient destinations: kernels of parameters write where the gradient is wanted, overwriting or adding, and nothing
// is copied.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/ops/random_fill.h"
#include "tandem/core/recorder.h"

namespace tandem::autograd {
namespace {

using core::PhiloxStream;

Tensor random_tensor(const Shape& shape, DType dtype, std::uint32_t op) {
  Tensor t = Tensor::empty(shape, {.dtype = dtype});
  core::fill_uniform(t, -1, 1, core::RandomContext{.seed = 7}.stream(op));
  return t;
}

struct Case {
  const char* name;
  std::vector<Shape> parameters;
  std::function<Variable(const std::vector<Variable>&, DType)> forward;
};

std::vector<Case> cases() {
  const auto input = [](const Shape& shape, DType dtype) { return Variable(random_tensor(shape, dtype, 100)); };
  const Tensor words = Tensor::from(std::vector<std::int64_t>{3, 0, 3, 5, 1, 1, 3}, {7});
  return {
      {"linear",
       {{5, 8}, {5}},
       [=](const auto& p, DType d) {
         return linear(input({6, 8}, d), p[0], p[1]);
       }},
      {"conv2d",
       {{16, 4, 3, 3}, {16}},
       [=](const auto& p, DType d) {
         return conv2d(input({2, 4, 9, 9}, d), p[0], p[1]);
       }},
      {"conv2d with relu",
       {{16, 4, 3, 3}, {16}},
       [=](const auto& p, DType d) {
         return conv2d(input({2, 4, 9, 9}, d), p[0], p[1], {.padding = {1, 1}, .activation = core::Activation::relu});
       }},
      {"conv2d of one channel",
       {{32, 1, 3, 3}, {32}},
       [=](const auto& p, DType d) {
         return conv2d(input({2, 1, 9, 9}, d), p[0], p[1]);
       }},
      {"grouped conv2d",
       {{8, 2, 3, 3}, {8}},
       [=](const auto& p, DType d) {
         return conv2d(input({2, 4, 9, 9}, d), p[0], p[1], {.groups = 2});
       }},
      {"batch_norm",
       {{6}, {6}},
       [=](const auto& p, DType d) {
         return batch_norm_training(input({4, 6, 3, 3}, d), p[0], p[1], 1e-5);
       }},
      {"batch_norm_inference",
       {{6}, {6}},
       [=](const auto& p, DType d) {
         return batch_norm_inference(input({4, 6, 3, 3}, d), p[0], p[1], Tensor::full({6}, 0.1, {.dtype = d}),
                                     Tensor::full({6}, 2, {.dtype = d}), 1e-5);
       }},
      {"embedding", {{6, 4}}, [=](const auto& p, DType) { return embedding(p[0], words); }},
  };
}

// A weighted sum, so that no gradient is a plain count.
void backward_of(const Case& c, const std::vector<Variable>& parameters, DType dtype) {
  const Variable y = c.forward(parameters, dtype);
  const Tensor dy = random_tensor(y.shape(), dtype, 200);
  y.backward({.gradient = y.data().rank() == 4 ? dy.contiguous(core::MemoryFormat::channels_last) : dy});
}

std::vector<Variable> make_parameters(const Case& c, DType dtype) {
  std::vector<Variable> parameters;
  std::uint32_t op = 0;
  for (const Shape& shape : c.parameters) parameters.emplace_back(random_tensor(shape, dtype, op++), true);
  return parameters;
}

// One bucket for all parameters, slots 64-byte aligned with a gap behind each.
struct Bucket {
  Tensor memory;
  std::vector<Tensor> slots;

  Bucket(const Case& c, DType dtype) {
    std::int64_t size = 0;
    std::vector<std::int64_t> offsets;
    for (const Shape& shape : c.parameters) {
      offsets.push_back(size);
      size += (core::numel(shape) + 16 + 15) / 16 * 16;
    }
    memory = Tensor::full({size}, 1e30, {.dtype = dtype});
    for (std::size_t i = 0; i < offsets.size(); ++i)
      slots.push_back(memory.slice(0, offsets[i], offsets[i] + core::numel(c.parameters[i])).reshape(c.parameters[i]));
  }
  std::int64_t untouched() const {
    const std::vector<double> values = memory.to_vector<double>();
    return std::count_if(values.begin(), values.end(), [](double v) { return v > 1e29; });
  }
};

void expect_near(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << what << ", element " << i;
}

class Destination : public testing::TestWithParam<DType> {};

TEST_P(Destination, KernelsOverwriteAndAddInPlaceAndCopyNothing) {
  const DType dtype = GetParam();
  const double tolerance = dtype == DType::float64 ? 1e-12 : 1e-5;
  for (const Case& c : cases()) {
    std::vector<Variable> plain = make_parameters(c, dtype), owned = make_parameters(c, dtype);
    backward_of(c, plain, dtype);
    Bucket bucket(c, dtype);
    const std::int64_t gaps = bucket.untouched() - [&] {
      std::int64_t total = 0;
      for (const Shape& shape : c.parameters) total += core::numel(shape);
      return total;
    }();
    std::vector<Registration> owners;
    for (std::size_t i = 0; i < owned.size(); ++i) owners.push_back(owned[i].set_gradient_destination(bucket.slots[i]));

    for (int pass = 1; pass <= 3; ++pass) {  // overwrite the stale bytes, add, add
      core::recorder::drain();
      core::recorder::enable(true);
      backward_of(c, owned, dtype);
      core::recorder::enable(false);
      for (const core::Event& event : core::recorder::drain()) {
        const std::string op = event.name;
        EXPECT_FALSE(std::string(event.category) == "op" && op == "accumulate")
            << c.name << ": a gradient was added by a pass of its own";
      }
      for (std::size_t i = 0; i < owned.size(); ++i) {
        const std::string what = fmt::format("{}, parameter {}, pass {}", c.name, i, pass);
        EXPECT_TRUE(owned[i].grad().is_same_view(bucket.slots[i])) << what;
        Tensor expected = plain[i].grad().clone();
        const std::vector<double> once = expected.to_vector<double>();
        std::vector<double> sum(once.size());
        for (std::size_t k = 0; k < once.size(); ++k) sum[k] = pass * once[k];
        expect_near(bucket.slots[i], Tensor::from(sum, expected.shape()), tolerance, what);
      }
      EXPECT_EQ(bucket.untouched(), gaps) << c.name << ": bytes beside the slots were written";
    }
  }
}

TEST_P(Destination, OneParameterSetToNoneAloneIsOverwrittenTheOtherAddedTo) {
  const DType dtype = GetParam();
  const double tolerance = dtype == DType::float64 ? 1e-12 : 1e-5;
  for (const Case& c : cases()) {
    if (c.parameters.size() < 2) continue;
    std::vector<Variable> plain = make_parameters(c, dtype), owned = make_parameters(c, dtype);
    backward_of(c, plain, dtype);
    Bucket bucket(c, dtype);
    std::vector<Registration> owners;
    for (std::size_t i = 0; i < owned.size(); ++i) owners.push_back(owned[i].set_gradient_destination(bucket.slots[i]));
    backward_of(c, owned, dtype);
    owned[0].set_grad({});
    bucket.slots[0].fill(1e30);
    backward_of(c, owned, dtype);
    expect_near(owned[0].grad(), plain[0].grad(), tolerance, c.name);
    std::vector<double> twice = plain[1].grad().to_vector<double>();
    for (double& v : twice) v *= 2;
    expect_near(owned[1].grad(), Tensor::from(twice, c.parameters[1]), tolerance, c.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Destination, testing::Values(DType::float32, DType::float64),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace tandem::autograd
