// How a rank's failure ends a run of several ranks.
#pragma once

#include <exception>
#include <utility>

#include "tandem/distributed/error.h"
#include "tandem/train/ranks.h"

namespace tandem::train {

/// If all ranks end with the same error they leave in good order, so that none of them takes another's end for a
/// failure.
inline void leave_together(Ranks& ranks) {
  try {
    ranks.world().leave();
  } catch (const core::Error&) {  // one did not come; what it ends with counts less than why all of them end
  }
}

/// Runs `part`. What it throws is told to the other ranks at once, while the groups through which they would notice
/// otherwise, as a lost connection, still live.
template <class Part>
auto telling_others(Ranks& ranks, Part&& part) {
  try {
    return std::forward<Part>(part)();
  } catch (const distributed::PeerError&) {
    throw;
  } catch (const distributed::SharedError&) {
    leave_together(ranks);
    throw;
  } catch (const std::exception& error) {
    ranks.world().fail(error.what());
    throw;
  }
}

}  // namespace tandem::train
