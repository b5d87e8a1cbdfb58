// Many tensors in few messages.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// Collective. Rank `root`'s values for tensors that have the same shapes and dtypes on all ranks. They come in fresh
/// memory, so what others saved of the old values stays as it was; the arguments are not touched. Bits are kept,
/// integers stay exact.
std::vector<Tensor> broadcast_coalesced(ProcessGroup& group, std::span<const Tensor> tensors, int root,
                                        const std::string& label);

}  // namespace tandem::distributed
