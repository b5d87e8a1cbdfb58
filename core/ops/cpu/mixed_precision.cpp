#include "tandem/core/ops/mixed_precision.h"

#include <dnnl.hpp>

namespace tandem::core::cpu {

bool has_bfloat16_products() {
  const auto bits = [](dnnl::cpu_isa isa) { return static_cast<unsigned>(isa); };
  const unsigned needed = bits(dnnl::cpu_isa::avx512_core_bf16);
  return (bits(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

}  // namespace tandem::core::cpu
