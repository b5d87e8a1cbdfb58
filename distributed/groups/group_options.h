// What every kind of group is told when it is made.
#pragma once

#include <memory>

#include "tandem/distributed/groups/ended_groups.h"
#include "tandem/distributed/store.h"
#include "tandem/distributed/watch.h"

namespace tandem::distributed {

struct GroupOptions {
  Milliseconds timeout{300000};  ///< of each collective, from when it begins to run
  std::shared_ptr<Watch> watch;  ///< told of each collective and of lost peers; asked who is missing; may be null
  std::shared_ptr<EndedGroups> ended = {};  ///< gets the connections when the group ends in good order; may be null
};

}  // namespace tandem::distributed
