#include "tandem/core/ops/pool_windows.h"

#include <algorithm>

namespace tandem::core {
namespace {

std::int64_t longest(const std::vector<PoolSpan>& spans) {
  std::int64_t most = 1;
  for (const PoolSpan& span : spans) most = std::max(most, span.end - span.begin);
  return most;
}

bool are_disjoint(const std::vector<PoolSpan>& spans) {
  for (std::size_t i = 1; i < spans.size(); ++i)
    if (spans[i].begin < spans[i - 1].end) return false;
  return true;
}

}  // namespace

std::int64_t PoolWindows::widest() const { return longest(columns); }
std::int64_t PoolWindows::highest() const { return longest(rows); }
bool PoolWindows::disjoint() const { return are_disjoint(rows) && are_disjoint(columns); }

MemoryFormat pool_format(const Tensor& tensor) {
  return tensor.is_channels_last() ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

PoolWindows pool_windows(const char* op, const Shape& x, const Pool2dOptions& options) {
  if (x.rank() != 4) fail("{}: x [N, C, H, W] is needed, got {}", op, x.str());
  PoolWindows windows;
  windows.height = x[2];
  windows.width = x[3];
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
    auto& spans = d == 0 ? windows.rows : windows.columns;
    spans.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = i * stride - padding, end = std::min(begin + kernel, size + padding);
      spans.push_back({std::max<std::int64_t>(begin, 0), std::min(end, size), end - begin});
    }
  }
  return windows;
}

PoolWindows adaptive_windows(const char* op, const Shape& x, std::array<std::int64_t, 2> output) {
  if (x.rank() != 4) fail("{}: x [N, C, H, W] is needed, got {}", op, x.str());
  PoolWindows windows;
  windows.height = x[2];
  windows.width = x[3];
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t size = x[2 + static_cast<int>(d)], count = output[d];
    if (count < 1 || size < 1) fail("{}: output [{}, {}] of x {} is empty", op, output[0], output[1], x.str());
    auto& spans = d == 0 ? windows.rows : windows.columns;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = i * size / count, end = ((i + 1) * size + count - 1) / count;
      spans.push_back({begin, end, end - begin});
    }
  }
  return windows;
}

}  // namespace tandem::core
