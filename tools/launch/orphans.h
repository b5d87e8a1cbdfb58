// What ranks left behind: processes that outlived their parent, also those that went into a session of their own.
#pragma once

#include <sys/types.h>

namespace tandem::launch {

/// From now on such processes become children of this one instead of the system's first.
void adopt_orphans();
/// Kills all children of this process but `spared`, and what they leave behind in turn. Returns within two seconds.
void kill_orphans(pid_t spared);

}  // namespace tandem::launch
