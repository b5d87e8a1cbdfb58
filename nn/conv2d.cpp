#include "tandem/nn/conv2d.h"

#include "tandem/nn/init.h"

namespace tandem::nn {

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::array<std::int64_t, 2> kernel,
               Generator& random, const Conv2dOptions& options)
    : options_{.stride = options.stride,
               .padding = options.padding,
               .dilation = options.dilation,
               .groups = options.groups,
               .activation = options.activation} {
  if (options.groups < 1 || in_channels % options.groups != 0 || out_channels % options.groups != 0)
    core::fail("conv2d: {} groups do not divide {} input and {} output channels", options.groups, in_channels,
               out_channels);
  const Shape shape{out_channels, in_channels / options.groups, kernel[0], kernel[1]};
  const std::int64_t fan_in = shape[1] * kernel[0] * kernel[1], fan_out = shape[0] * kernel[0] * kernel[1];
  weight_ = register_parameter("weight", options.init == Conv2dInit::uniform_by_fan_in
                                             ? uniform_by_fan_in(shape, fan_in, random)
                                             : normal_by_fan_out(shape, fan_out, random));
  if (options.bias) bias_ = register_parameter("bias", uniform_by_fan_in({out_channels}, fan_in, random));
}

Variable Conv2d::forward(const Variable& x) { return autograd::conv2d(x, weight_, bias_, options_); }

}  // namespace tandem::nn
