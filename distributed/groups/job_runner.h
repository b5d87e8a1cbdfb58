// JobRunner: what a queued group (queued_group.h) hands its collectives to, one after the other: our own plans over a
// transport, or a library that brings collectives of its own.
#pragma once

#include <cstdint>
#include <string>

#include "tandem/distributed/groups/collective_runner.h"
#include "tandem/distributed/groups/transport.h"

namespace tandem::distributed {

/// One thread uses it; abort() is for all. The calls mean what they mean for a Transport.
class JobRunner {
 public:
  virtual ~JobRunner() = default;
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  /// Returns the bytes that this rank sent. Throws TransportError, of peer -1 where the peer is not known; after one,
  /// only forget() and abort() may follow.
  virtual std::int64_t run(const Job& job, std::uint64_t sequence, Transport::Clock::time_point deadline) = 0;
  /// The latest one in the words in which peers name theirs.
  virtual std::string current() const = 0;
  /// The job is done and its caller has been told: for what can wait until then.
  virtual void end() = 0;
  /// Instead of end(), after an error: the caller may free its memory now. Throws nothing.
  virtual void forget() = 0;
  /// From any thread: what runs and all that follows throws.
  virtual void abort() = 0;

 protected:
  JobRunner() = default;
};

}  // namespace tandem::distributed
