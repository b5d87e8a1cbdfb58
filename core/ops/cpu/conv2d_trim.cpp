#include "tandem/core/ops/cpu/conv2d_trim.h"

#include <algorithm>

namespace tandem::core::cpu {
namespace {

// One axis of a convolution.
struct Axis {
  std::int64_t input, taps, output, stride, padding, dilation;

  // Where output place 0 sees through the tap.
  std::int64_t position(std::int64_t tap) const { return tap * dilation - padding; }
  // True if some output place sees the input through the tap.
  bool sees(std::int64_t tap) const {
    const std::int64_t first =
        std::max<std::int64_t>(0, (stride - 1 - position(tap)) / stride);  // inside, or behind it
    return first < output && position(tap) + first * stride < input;
  }
};

void trim_axis(std::size_t d, const Shape& y, TrimmedConv2d& trimmed) {
  const int dim = 2 + static_cast<int>(d);
  Conv2dOptions& options = trimmed.options;
  const Axis axis{trimmed.x.shape()[dim], trimmed.dweight.shape()[dim], y[dim],
                  options.stride[d],      options.padding[d],           options.dilation[d]};
  std::int64_t begin = 0, end = axis.taps;
  while (begin < end && !axis.sees(begin)) ++begin;
  while (end > begin && !axis.sees(end - 1)) --end;
  if (axis.output == 1 && begin < end) {  // both ends inside, hence all between them
    trimmed.x = trimmed.x.slice(dim, axis.position(begin), axis.position(end - 1) + 1);
    options.padding[d] = 0;
    options.stride[d] = 1;
  } else if (begin < end) {  // padding can become less, but not negative
    begin = std::min(begin, axis.padding / axis.dilation);
    options.padding[d] -= begin * axis.dilation;
  }
  for (std::int64_t tap = begin; tap < end; ++tap) trimmed.has_blind_spots |= !axis.sees(tap);
  const std::int64_t last = (axis.output - 1) * options.stride[d] - options.padding[d];
  trimmed.has_blind_spots |= (end - 1 - begin) * axis.dilation < options.padding[d] || last >= trimmed.x.shape()[dim];
  if (end - begin < axis.taps) trimmed.dweight = trimmed.dweight.slice(dim, begin, end);
}

}  // namespace

TrimmedConv2d trim_conv2d(const Tensor& x, const Shape& y, const Tensor& dweight, const Conv2dOptions& options) {
  TrimmedConv2d trimmed{.x = x, .dweight = dweight, .options = options};
  for (const std::size_t d : {0, 1}) trim_axis(d, y, trimmed);
  trimmed.x = trimmed.x.contiguous(MemoryFormat::channels_last);
  return trimmed;
}

}  // namespace tandem::core::cpu
