#include "tandem/distributed/broadcast_coalesced.h"

#include "tandem/core/alignment.h"

namespace tandem::distributed {
namespace {

using core::DType;

// Of one message: large enough for the wire, small beside a model that is large.
constexpr std::int64_t kMessageBytes = 64 << 20;

std::int64_t aligned_bytes(const Tensor& tensor) { return core::align_up(static_cast<std::int64_t>(tensor.bytes())); }

}  // namespace

std::vector<Tensor> broadcast_coalesced(ProcessGroup& group, std::span<const Tensor> tensors, int root,
                                        const std::string& label) {
  std::vector<Tensor> results;
  for (std::size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    std::int64_t bytes = 0;
    while (end < tensors.size() && (end == begin || bytes < kMessageBytes)) bytes += aligned_bytes(tensors[end++]);
    Tensor flat = Tensor::zeros({bytes}, {.dtype = DType::uint8, .device = tensors[begin].device()});
    std::int64_t offset = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const Tensor& tensor = tensors[i];
      const core::Strides strides = tensor.is_dense() ? tensor.strides() : core::contiguous_strides(tensor.shape());
      const auto item = static_cast<std::int64_t>(core::item_size(tensor.dtype()));
      Tensor& result = results.emplace_back(flat.storage(), tensor.shape(), strides, offset / item, tensor.dtype());
      if (group.rank() == root) result.copy_from(tensor);
      offset += aligned_bytes(tensor);
    }
    group.broadcast(flat, root, label)->wait();
  }
  return results;
}

}  // namespace tandem::distributed
