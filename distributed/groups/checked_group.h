// A group that compares before it acts: all ranks tell each other what they are about to do, and only where all are
// about to do the same is it handed to the group inside. A wrong order or shape then ends at once, on all ranks, with
// what two of them wanted, instead of a hang or wrong numbers:
//
//   collective 17 of world/ddp: rank 0 is at all_reduce (sum, float32 [4096]) of bucket 1 (fc.weight),
//   rank 2 at broadcast (float32 [3], from rank 0) of buffers
//
// Compared are kind, operation, dtype, shape, layout in memory, scale, root and label, which must thus be the same on
// all ranks. Sends and receives are not compared. Costs one all-gather of 8 bytes a rank before each collective, and
// two threads.
#pragma once

#include <memory>
#include <string>

#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// Collective: comparisons run in a duplicate of `inner`, which belongs to the new group alone. The new group has
/// inner's name. Its Works fail with Error where ranks differ, and so do all that follow. A Work's times and bytes are
/// those of the collective, without the comparison. Throws what duplicate() throws.
std::shared_ptr<ProcessGroup> make_checked_group(std::shared_ptr<ProcessGroup> inner);

}  // namespace tandem::distributed
