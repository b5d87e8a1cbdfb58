#include "tandem/core/ops/cat.h"

#include <algorithm>

#include "tandem/core/ops/copy.h"

namespace tandem::core {
namespace {

void check_fits(const Tensor& tensor, std::size_t i, const Tensor& first, int dim) {
  bool fits = tensor.rank() == first.rank();
  for (int d = 0; fits && d < first.rank(); ++d) fits = d == dim || tensor.shape()[d] == first.shape()[d];
  if (!fits)
    fail("cat: tensor {} has shape {}, which differs from {} in more than dimension {}", i, tensor.shape().str(),
         first.shape().str(), dim);
  if (tensor.dtype() != first.dtype())
    fail("cat: tensor {} is {}, the first is {}", i, name(tensor.dtype()), name(first.dtype()));
}

}  // namespace

Tensor cat(std::span<const Tensor> tensors, int dim) {
  if (tensors.empty()) fail("cat: needs at least one tensor");
  const Tensor& first = tensors.front();
  if (first.rank() == 0) fail("cat: scalars have no dimension to join along");
  dim = normalize_dim("cat", dim, first.rank());
  Shape shape = first.shape();
  shape[dim] = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_fits(tensors[i], i, first, dim);
    shape[dim] += tensors[i].shape()[dim];
  }
  TensorOptions options = first.options();
  const auto channels_last = [](const Tensor& t) { return t.is_channels_last(); };
  const auto contiguous = [](const Tensor& t) { return t.is_contiguous(); };
  if (std::ranges::all_of(tensors, channels_last) && !std::ranges::all_of(tensors, contiguous))
    options.format = MemoryFormat::channels_last;
  Tensor result = Tensor::empty(shape, options);
  std::int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t end = begin + tensor.shape()[dim];
    Tensor part = result.slice(dim, begin, end);
    copy(tensor, part);
    begin = end;
  }
  return result;
}

}  // namespace tandem::core
