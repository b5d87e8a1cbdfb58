// What a list of segments may be.
#include "tandem/core/ops/segment.h"

#include <gtest/gtest.h>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;
using tandem::testing::error_of;

std::string error_for(const Segment& segment, std::size_t states, Device device = default_device()) {
  return error_of([&] { check_segment("op", 3, segment, states, device); });
}

Segment made_of(const Tensor& parameter) {
  Segment s;
  s.parameter = parameter;
  s.gradient = Tensor::zeros_like(parameter);
  return s;
}

TEST(Segments, EveryDenseLayoutFits) {
  const Tensor x = Tensor::zeros({2, 3, 4, 5});
  for (const Layout layout : {Layout::contiguous, Layout::channels_last, Layout::transposed}) {
    Segment s = made_of(laid_out(x, layout));
    check_segment("op", 0, s, 0, default_device());
    s.state[1] = s.state[0] = s.gradient;
    check_segment("op", 0, s, 2, default_device());
  }
}

TEST(Segments, WhatDoesNotFitIsNamed) {
  const Tensor x = Tensor::zeros({2, 3});
  const std::string here = default_device().str();
  EXPECT_EQ(error_for({}, 0), "op: segment 3: the parameter is undefined, must be dense float32 or float64");
  EXPECT_EQ(error_for(made_of(x.to(DType::bfloat16)), 0),
            "op: segment 3: the parameter is bfloat16 [2, 3] with strides [3, 1] on " + here +
                ", must be dense float32 or float64");
  EXPECT_EQ(error_for(made_of(with_gaps(x, 1)), 0),
            "op: segment 3: the parameter is float32 [2, 3] with strides [6, 2] on " + here +
                ", must be dense float32 or float64");
  EXPECT_EQ(
      error_for(made_of(x), 0, {.type = DeviceType::cuda, .index = 1}),
      "op: segment 3: the parameter is float32 [2, 3] with strides [3, 1] on " + here + ", segment 0 is on cuda:1");
  Segment s = made_of(x);
  s.gradient = exchanged(x, 0, 1);
  EXPECT_EQ(error_for(s, 0), "op: segment 3: the gradient is float32 [2, 3] with strides [1, 2] on " + here +
                                 ", the parameter float32 [2, 3] with strides [3, 1] on " + here);
  s = made_of(x);
  EXPECT_EQ(error_for(s, 1),
            "op: segment 3: state 0 is undefined, the parameter float32 [2, 3] with strides [3, 1] on " + here);
  s.state[1] = x.to(DType::float64);
  EXPECT_EQ(error_for(s, 0), "op: segment 3: state 1 is float64 [2, 3] with strides [3, 1] on " + here +
                                 ", the parameter float32 [2, 3] with strides [3, 1] on " + here);
}

}  // namespace
}  // namespace tandem::core
