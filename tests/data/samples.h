// What the data sets' tests share.
#pragma once

#include <numeric>
#include <vector>

#include "tandem/data/images/pixels.h"
#include "tests/data/temporary_folder.h"

namespace tandem::data {

/// 0, 1, ..., n - 1.
inline std::vector<std::int64_t> range(std::int64_t n) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

/// What a byte must become.
inline float normalized(int byte, const Normalization& n) {
  return (static_cast<float>(byte) / 255.0f - n.mean) / n.deviation;
}

}  // namespace tandem::data
