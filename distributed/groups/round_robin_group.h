// Groups that take turns: the n-th collective goes to group n modulo their number, so that several are under way at
// once. One connection, or one thread, may not fill a network (Li et al. 2020, section 5.4, figure 12).
//
// All ranks issue collectives in the same order, so all of them pick the same group. Collectives of one group end in
// order, those of two do not: waiting for the last does not mean that the one before has ended. Also a barrier goes to
// the group whose turn it is, and says nothing about collectives that the others still run. Sends and receives all go
// through the first group, so that they keep their order between two ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// `groups` are of the same ranks, and belong to the new group alone. When a collective fails in one, the others are
/// aborted. Throws Error without groups, and where ranks differ.
std::shared_ptr<ProcessGroup> make_round_robin_group(const std::string& name,
                                                     std::vector<std::shared_ptr<ProcessGroup>> groups);

/// "gradients (group 2 of 3)": names for groups that shall take turns.
std::string round_robin_name(const std::string& name, std::size_t index, std::size_t count);

}  // namespace tandem::distributed
