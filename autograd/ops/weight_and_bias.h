// How the rules of normalisations hand over two parameter gradients that one kernel computes.
#pragma once

#include <utility>

#include "tandem/autograd/node.h"

namespace tandem::autograd {

inline Tensor tensor_or_none(const Variable& v) { return v.defined() ? v.data() : Tensor(); }

/// The kernel writes both gradients in one pass and in one mode. Where one is to be overwritten and the other added to
/// (its owner set it to none alone), the first is zeroed, and both are added to.
inline void use_one_mode(GradientMemory& a, GradientMemory& b) {
  if (!a.tensor.defined() || !b.tensor.defined() || a.accumulate == b.accumulate) return;
  for (GradientMemory* memory : {&a, &b}) {
    if (!memory->accumulate) memory->tensor.fill(0);
    memory->accumulate = true;
  }
}

/// Runs `kernel(dweight, dbias, accumulate)` on the memory of the inputs `weight` and `weight + 1`.
template <class Kernel>
void write_weight_and_bias(Gradients& dx, int weight, Kernel&& kernel) {
  GradientMemory dweight = dx.memory(weight), dbias = dx.memory(weight + 1);
  use_one_mode(dweight, dbias);
  kernel(dweight.tensor, dbias.tensor, dweight.accumulate || dbias.accumulate);
  dx.commit(weight, std::move(dweight));
  dx.commit(weight + 1, std::move(dbias));
}

}  // namespace tandem::autograd
