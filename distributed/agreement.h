// Do all ranks mean the same? Compared before anything is sent that depends on it.
#pragma once

#include <span>
#include <string>

#include "tandem/distributed/process_group.h"
#include "tandem/distributed/world.h"

namespace tandem::distributed {

/// Collective. Throws SharedError, on all ranks, where their lines differ: what rank 0 has and what the first rank
/// that differs has, at the first line where they do. `what` begins the message: "DistributedDataParallel: the models".
/// Costs one small all-gather where all is well.
void verify_agreement(ProcessGroup& group, const std::string& what, std::span<const std::string> lines);

/// The same through the store of `world`, before there are groups: for what decides which groups are made. Each rank
/// reads a line of every other. Throws PeerError where a rank failed or did not come within `timeout`. `topic` is
/// unique in the run.
void verify_agreement(World& world, const std::string& topic, const std::string& what,
                      std::span<const std::string> lines, Milliseconds timeout);

}  // namespace tandem::distributed
