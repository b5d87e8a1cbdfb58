// CollectiveRunner: one rank's part of each collective, over any transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/distributed/groups/all_reduce_plan.h"
#include "tandem/distributed/groups/transport.h"
#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// A collective that has been issued, and where its numbers lie, in the addresses of its tensors' device. Issuing
/// counts as a change of what will be written: later, on the group's thread, the change would come behind the issuing
/// thread's back.
struct Job {
  explicit Job(Collective issued);

  Collective collective;
  std::byte* data = nullptr;    ///< not written by send and all_gather
  std::byte* output = nullptr;  ///< all_gather, reduce_scatter
};

/// Without other ranks: what is left of a collective is a scaling or a copy.
void run_alone(const Job& job);

class CollectiveRunner {
 public:
  CollectiveRunner(Transport& transport, int rank, int size);

  /// Returns the bytes that this rank sent. Throws TransportError.
  std::int64_t run(const Job& job, std::uint64_t sequence, Transport::Clock::time_point deadline);
  /// Of the latest one.
  const Signature& signature() const { return signature_; }

 private:
  void dispatch(const Job& job);
  void all_reduce(const Job& job);
  void all_reduce_direct(const Job& job);
  void all_gather(const Job& job);
  void reduce_scatter(const Job& job);
  void barrier();
  void run_plan(const Plan& plan, const Job& job, std::byte* data);
  void send(int peer, const void* data, std::size_t bytes);
  /// At least `bytes`, aligned; kept from one collective to the next.
  std::byte* staging(std::size_t bytes);

  Transport& transport_;
  int rank_;
  int size_;
  Signature signature_;
  std::int64_t bytes_sent_ = 0;
  Tensor staging_;
  std::vector<std::uint64_t> sent_to_, received_from_;  // messages of send and recv, by peer
};

}  // namespace tandem::distributed
