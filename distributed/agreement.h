// Do all ranks mean the same? Compared before anything is sent that depends on it.
#pragma once

#include <span>
#include <string>

#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// Collective. Throws SharedError, on all ranks, where their lines differ: what rank 0 has and what the first rank
/// that differs has, at the first line where they do. `what` begins the message: "DistributedDataParallel: the models".
/// Costs one small all-gather where all is well.
void verify_agreement(ProcessGroup& group, const std::string& what, std::span<const std::string> lines);

}  // namespace tandem::distributed
