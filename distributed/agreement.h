// Do all ranks mean the same? Compared before anything is sent that depends on it, and at a run's end.
#pragma once

#include <span>
#include <string>

#include "tandem/distributed/process_group.h"
#include "tandem/distributed/world.h"

namespace tandem::distributed {

/// Collective. Throws SharedError, on all ranks, if their lines differ: what rank 0 has and what the first rank that
/// differs has, at the first line where they do. `what` begins the message: "DistributedDataParallel: the models".
/// Costs one small all-gather if all is well. Only for what a sound group needs: a group that is not what it says, such
/// as one whose ranks do not reach each other, finds that all agree.
void verify_agreement(ProcessGroup& group, const std::string& what, std::span<const std::string> lines);

/// The same through the store of `world`, so that no group has to be trusted: for what decides which groups are made,
/// and for what they have done. Throws PeerError if a rank failed or did not come within `timeout`.
void verify_agreement(World& world, const std::string& what, std::span<const std::string> lines, Milliseconds timeout);

}  // namespace tandem::distributed
