#include "tandem/core/ops/cat.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {

Variable cat(std::span<const Variable> parts, int dim) {
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> sizes;
  for (const Variable& part : parts) {
    tensors.push_back(part.data());
    sizes.push_back(part.size(dim));
  }
  return record("cat", core::cat(tensors, dim), parts, [sizes = std::move(sizes), dim](Tensor dy, Gradients& dx) {
    std::int64_t start = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::int64_t end = start + sizes[i];
      if (dx.needs(static_cast<int>(i))) dx.add(static_cast<int>(i), dy.slice(dim, start, end));
      start = end;
    }
  });
}

}  // namespace tandem::autograd
