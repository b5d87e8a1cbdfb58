// Every collective against a naive reference, for any kind of group.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/distributed/process_group.h"

namespace tandem::testing {

using distributed::ProcessGroup;

/// Makes rank `rank`'s member of a new group of `size`; called on that rank's thread. Null: that rank is another
/// process, which runs the same cases.
using MakeGroup = std::function<std::shared_ptr<ProcessGroup>(int rank, int size)>;

/// Runs `body` on `size` threads, each with its member, and throws the first exception of any.
void run_ranks(int size, const MakeGroup& make_group, const std::function<void(ProcessGroup&)>& body);

/// All collectives, dtypes and operations for groups of `size`.
void check_all_reduce(int size, const MakeGroup& make_group, const std::vector<std::int64_t>& sizes);
void check_scaled_mean(int size, const MakeGroup& make_group, const std::vector<std::int64_t>& sizes);
void check_others(int size, const MakeGroup& make_group, const std::vector<std::int64_t>& sizes);
void check_send_recv(int size, const MakeGroup& make_group);
/// 200 collectives of all kinds in flight at once end in their order.
void check_queue(int size, const MakeGroup& make_group);

}  // namespace tandem::testing
