// Convolution and its gradients by the definition, and the dtypes that they are computed in.
#pragma once

#include <vector>

#include "tandem/core/ops/conv2d.h"
#include "tests/core/awkward.h"

namespace tandem::core::testing {

struct Conv2dCase {
  Shape x, weight;
  Conv2dOptions options;
};

/// Everything in float64, by the definition.
struct Conv2dReference {
  std::vector<double> y, dx, dweight, dbias;

  Conv2dReference(const Conv2dCase& c, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& dy) {
    const Shape ys = conv2d_shape(c.x, c.weight, c.options), xs = c.x, ws = c.weight;
    const auto vx = x.to_vector<double>(), vw = weight.to_vector<double>(), vdy = dy.to_vector<double>();
    y.resize(at(numel(ys)));
    dx.resize(at(numel(xs)));
    dweight.resize(at(numel(ws)));
    dbias.resize(at(ys[1]));
    const auto vb = bias.to_vector<double>();
    const std::int64_t group_o = std::max<std::int64_t>(1, ws[0] / c.options.groups);
    for (std::int64_t n = 0; n < ys[0]; ++n)
      for (std::int64_t o = 0; o < ys[1]; ++o)
        for (std::int64_t i = 0; i < ys[2]; ++i)
          for (std::int64_t j = 0; j < ys[3]; ++j) {
            const std::size_t out = at(((n * ys[1] + o) * ys[2] + i) * ys[3] + j);
            y[out] += vb[at(o)];
            dbias[at(o)] += vdy[out];
            for (std::int64_t k = 0; k < ws[1] * ws[2] * ws[3]; ++k) {
              const std::int64_t q = k % ws[3], p = k / ws[3] % ws[2], channel = k / (ws[3] * ws[2]);
              const std::int64_t h = i * c.options.stride[0] - c.options.padding[0] + p * c.options.dilation[0];
              const std::int64_t w = j * c.options.stride[1] - c.options.padding[1] + q * c.options.dilation[1];
              if (h < 0 || h >= xs[2] || w < 0 || w >= xs[3]) continue;
              const std::size_t in = at(((n * xs[1] + o / group_o * ws[1] + channel) * xs[2] + h) * xs[3] + w);
              const std::size_t place = at(o * ws[1] * ws[2] * ws[3] + k);
              y[out] += vw[place] * vx[in];
              dx[in] += vw[place] * vdy[out];
              dweight[place] += vdy[out] * vx[in];
            }
          }
  }
};

struct Precision {
  DType activations, parameters;
};
inline constexpr Precision kPrecisions[] = {{DType::float32, DType::float32},
                                            {DType::float64, DType::float64},
                                            {DType::bfloat16, DType::bfloat16},
                                            {DType::bfloat16, DType::float32}};

}  // namespace tandem::core::testing
