#include "tandem/core/ops/gather.h"

#include "tandem/core/cpu/strided.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// Throws at the first index, in memory order, that is not in [0, size). Serial: an exception must not leave a parallel
// loop.
void check_range(const char* op, const Tensor& index, int dim, std::int64_t size) {
  const Tensor dense = index.contiguous();
  const std::int64_t* values = dense.data<std::int64_t>();
  const std::int64_t n = dense.numel();
  bool good = true;
  for (std::int64_t i = 0; i < n; ++i) good &= values[i] >= 0 && values[i] < size;
  if (good) return;
  std::int64_t i = 0;
  while (values[i] >= 0 && values[i] < size) ++i;
  Dims place = Dims::filled(index.rank(), 0);
  for (std::int64_t d = index.rank() - 1, rest = i; d >= 0; --d) {
    place[static_cast<int>(d)] = rest % index.shape()[static_cast<int>(d)];
    rest /= index.shape()[static_cast<int>(d)];
  }
  fail("{}: index {} at {} is not in [0, {}), the size of dimension {}", op, values[i], place.str(), size, dim);
}

}  // namespace

template <>
void gather<DeviceType::cpu>(const Tensor& x, int dim, const Tensor& index, Tensor& output) {
  check_range("gather", index, dim, x.shape()[dim]);
  const std::int64_t step = x.strides()[dim];
  Strides across = x.strides();  // where the walk is in x is said by the index alone along dim
  across[dim] = 0;
  const auto plan = make_plan<3>(index.shape(), {&output.strides(), &index.strides(), &across});
  const std::int64_t* picks = index.data<std::int64_t>();
  visit_all(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>();
    T* out = output.mutable_data<T>();
    for_each_run(plan, [&](const auto& at, std::int64_t n, const auto& strides) {
      for (std::int64_t i = 0; i < n; ++i)
        out[at[0] + i * strides[0]] = in[at[2] + i * strides[2] + picks[at[1] + i * strides[1]] * step];
    });
  });
}

template <>
void scatter_add<DeviceType::cpu>(Tensor& destination, int dim, const Tensor& index, const Tensor& source) {
  check_range("scatter_add", index, dim, destination.shape()[dim]);
  // Positions that differ only along dim may meet in one element, so they belong to one thread, which takes them in
  // order.
  Shape others = index.shape();
  others[dim] = 1;
  const auto plan = make_plan<3>(others, {&destination.strides(), &index.strides(), &source.strides()});
  const std::int64_t size = index.shape()[dim], index_step = index.strides()[dim], source_step = source.strides()[dim];
  const std::int64_t step = destination.strides()[dim];
  const std::int64_t* picks = index.data<std::int64_t>();
  visit_floating("scatter_add", destination.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, compute_t<T>>) {
      const T* in = source.data<T>();
      T* out = destination.mutable_data<T>();
      for_each_run(plan, [&](const auto& at, std::int64_t n, const auto& strides) {
        for (std::int64_t k = 0; k < size; ++k)
          for (std::int64_t i = 0; i < n; ++i)
            out[at[0] + i * strides[0] + picks[at[1] + k * index_step + i * strides[1]] * step] +=
                in[at[2] + k * source_step + i * strides[2]];
      });
    } else {
      fail("scatter_add: {} needs to be summed in another dtype", name(destination.dtype()));
    }
  });
}

}  // namespace tandem::core::kernels
