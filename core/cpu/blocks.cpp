#include "tandem/core/cpu/blocks.h"

#include "tandem/core/cpu/vectors.h"

namespace tandem::core::cpu {

void round_to_bfloat16(const float* values, std::int64_t n, bfloat16* out) {
  for_each_vector<float>(n, [=](auto i) { put(out, i, at(values, i)); });
}

}  // namespace tandem::core::cpu
