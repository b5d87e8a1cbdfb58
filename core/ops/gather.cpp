#include "tandem/core/ops/gather.h"

#include "tandem/core/ops/copy.h"
#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

void check_index(const char* op, const Tensor& x, int dim, const Tensor& index) {
  if (index.dtype() != DType::int64) fail("{}: the index needs to be int64, got {}", op, name(index.dtype()));
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == dim || index.shape()[i] <= x.shape()[i];
  if (!fits)
    fail("{}: index {} does not fit {}: but for dimension {}, no size may be larger", op, index.shape().str(),
         x.shape().str(), dim);
}

// Of the larger tensor only what the index names is touched.
Cost cost_of_elements(const Tensor& index, DType dtype, int passes) {
  const double size = static_cast<double>(index.numel()) * static_cast<double>(item_size(dtype));
  return {.bytes = passes * size + moved_bytes(index)};
}

}  // namespace

Tensor gather(const Tensor& x, int dim, const Tensor& index) {
  dim = normalize_dim("gather", dim, x.rank());
  check_index("gather", x, dim, index);
  Tensor output = Tensor::empty(index.shape(), x.options());
  if (index.numel() > 0)
    TANDEM_DISPATCH_COST("gather", x.device(), cost_of_elements(index, x.dtype(), 2), gather, x, dim, index, output);
  return output;
}

void scatter_add(Tensor& destination, int dim, const Tensor& index, const Tensor& source) {
  dim = normalize_dim("scatter_add", dim, destination.rank());
  check_index("scatter_add", destination, dim, index);
  bool fits = source.rank() == index.rank() && source.dtype() == destination.dtype();
  for (int i = 0; fits && i < index.rank(); ++i) fits = index.shape()[i] <= source.shape()[i];
  if (!fits)
    fail("scatter_add: source {} {} does not fit index {} and destination {} {}", name(source.dtype()),
         source.shape().str(), index.shape().str(), name(destination.dtype()), destination.shape().str());
  if (index.numel() == 0) return;
  if (destination.dtype() == DType::bfloat16) {
    Tensor sum = destination.to(DType::float32);
    TANDEM_DISPATCH_COST("scatter_add", destination.device(), cost_of_elements(index, DType::float32, 3), scatter_add,
                         sum, dim, index, source.to(DType::float32));
    copy(sum, destination);
    return;
  }
  TANDEM_DISPATCH_COST("scatter_add", destination.device(), cost_of_elements(index, source.dtype(), 3), scatter_add,
                       destination, dim, index, source);
}

}  // namespace tandem::core
