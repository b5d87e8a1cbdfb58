#include "tandem/core/ops/pool_windows.h"

#include <algorithm>

namespace tandem::core {

PoolSpan PoolAxis::span(std::int64_t i) const {
  if (kernel == 0) {
    const std::int64_t begin = i * size / count, end = ((i + 1) * size + count - 1) / count;
    return {begin, end, end - begin};
  }
  const std::int64_t begin = i * stride - padding, end = std::min(begin + kernel, size + padding);
  const PoolSpan seen{std::max<std::int64_t>(begin, 0), std::min(end, size), end - begin};
  return padding_counts ? seen : PoolSpan{seen.begin, seen.end, seen.end - seen.begin};
}

std::int64_t PoolAxis::longest() const {
  std::int64_t most = 1;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, span(i).end - span(i).begin);
  return most;
}

bool PoolAxis::disjoint() const {
  for (std::int64_t i = 1; i < count; ++i)
    if (span(i).begin < span(i - 1).end) return false;
  return true;
}

MemoryFormat pool_format(const Tensor& tensor) {
  return tensor.is_channels_last() ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

PoolWindows pool_windows(const char* op, const Shape& x, const Pool2dOptions& options) {
  if (x.rank() != 4) fail("{}: x [N, C, H, W] is needed, got {}", op, x.str());
  PoolWindows windows;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t size = x[2 + static_cast<int>(d)], kernel = options.kernel[d], padding = options.padding[d];
    const std::int64_t stride = options.stride[d] == 0 ? kernel : options.stride[d];
    if (size < 1) fail("{}: x {} has no place for a window to see", op, x.str());
    if (kernel < 1 || stride < 1) fail("{}: kernel {} and stride {} must be positive", op, kernel, stride);
    if (padding < 0 || padding > kernel / 2)
      fail("{}: padding {} must be at most half the kernel, which is {}", op, padding, kernel);
    const std::int64_t room = size + 2 * padding - kernel;
    if (room < 0) fail("{}: kernel {} does not fit into x {} with padding {}", op, kernel, x.str(), padding);
    std::int64_t count = (room + (options.ceil_mode ? stride - 1 : 0)) / stride + 1;
    // A window must begin inside the input or its front padding.
    if (options.ceil_mode && (count - 1) * stride >= size + padding) --count;
    (d == 0 ? windows.rows : windows.columns) = {
        .size = size, .count = count, .kernel = kernel, .stride = stride, .padding = padding};
  }
  return windows;
}

PoolWindows adaptive_windows(const char* op, const Shape& x, std::array<std::int64_t, 2> output) {
  if (x.rank() != 4) fail("{}: x [N, C, H, W] is needed, got {}", op, x.str());
  PoolWindows windows;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t size = x[2 + static_cast<int>(d)], count = output[d];
    if (count < 1 || size < 1) fail("{}: output [{}, {}] of x {} is empty", op, output[0], output[1], x.str());
    (d == 0 ? windows.rows : windows.columns) = {.size = size, .count = count};
  }
  return windows;
}

}  // namespace tandem::core
