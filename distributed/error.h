// What can go wrong between ranks.
#pragma once

#include "tandem/core/error.h"

namespace tandem::distributed {

/// Another rank is the cause: it died, left, stalled, or failed first. The message names it. `train` ends with exit
/// code 3.
class PeerError : public core::Error {
 public:
  using Error::Error;
};

/// A wait on another rank passed its deadline.
class TimeoutError : public PeerError {
 public:
  using PeerError::PeerError;
};

/// Every rank throws it by itself, the same: ranks that compared notes and differ, a loss that is no longer finite.
/// Nobody needs to be told.
class SharedError : public core::Error {
 public:
  using Error::Error;
};

}  // namespace tandem::distributed
