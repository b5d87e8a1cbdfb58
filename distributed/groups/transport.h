// Transport: what a group's collectives run over. It moves ranges of bytes between ranks, and nothing else.
//
// Between two ranks messages keep their order: the n-th receive that is posted for a peer gets that peer's n-th send.
// Receives are posted early, so that a message finds its place waiting. One thread uses a transport; abort() is for
// all.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tandem/core/dtype.h"
#include "tandem/distributed/awake_clock.h"
#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

/// What two ranks must agree about before bytes move between them.
struct Signature {
  std::uint64_t sequence = 0;  ///< number of the collective in its group; of a send or recv: number between the two
  std::uint64_t bytes = 0;     ///< of `Collective::tensor`
  Collective::Kind kind = Collective::Kind::barrier;  ///< recv counts as send
  ReduceOp op = ReduceOp::sum;
  core::DType dtype = core::DType::float32;
  std::uint8_t root = 0;  ///< broadcast: low bits of the root's rank

  bool operator==(const Signature&) const = default;
  /// "all_reduce 17 (sum, float32, 4096 bytes)".
  std::string str() const;
};

/// Why a wait did not end well.
class TransportError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    lost,      ///< the connection to `peer`
    deadline,  ///< passed, waiting for `peer`
    mismatch,  ///< `peer` is in another collective, or in one of another size
    aborted,   ///< by abort()
  };
  TransportError(Kind error_kind, int error_peer, const std::string& reason)
      : std::runtime_error(reason), kind(error_kind), peer(error_peer) {}

  Kind kind;
  int peer;
};

class Transport {
 public:
  using Clock = AwakeClock;

  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Each of these throws TransportError; after one, only forget() and abort() may follow.
  /// All messages up to the next call belong to this collective.
  virtual void begin(const Signature& signature, Clock::time_point deadline) = 0;
  /// `data` must live until wait_receive(), or until the transport is aborted and gone.
  virtual void post_receive(int peer, void* data, std::size_t bytes) = 0;
  /// Waits for the oldest posted receive of this peer.
  virtual void wait_receive(int peer) = 0;
  /// `data` must stay as it is until wait_sends().
  virtual void post_send(int peer, const void* data, std::size_t bytes) = 0;
  virtual void wait_sends() = 0;
  /// The collective is done and its caller has been told: for what can wait until then.
  virtual void end() = 0;
  /// Instead of end(), after an error. Lets go of the caller's memory. Throws nothing.
  virtual void forget() = 0;

  /// From any thread: waits that run and all that follow throw, and peers learn that this rank is gone. Closes
  /// connections.
  virtual void abort() = 0;

 protected:
  Transport() = default;
};

}  // namespace tandem::distributed
