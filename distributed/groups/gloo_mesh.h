// Gloo connections to every other rank, made through our store: one for each direction.
//
// A pair of Gloo's has one lock, which a thread that writes holds; Gloo's own thread, told that there is something to
// read, then asks again and again until it gets it. With a connection for each direction it reads from one while we
// write to the other.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "tandem/distributed/groups/gloo_group.h"

namespace gloo::transport {
class Context;
class Device;
}  // namespace gloo::transport

namespace tandem::distributed {

class GlooMesh {
 public:
  GlooMesh(std::string group, GlooEndpoint endpoint);

  /// Collective. Throws PeerError naming the ranks that did not come, or that could not be reached; after close() with
  /// its cause.
  void connect(Milliseconds timeout);
  /// From any thread: ends connect() and all connections at once, so that the other sides notice.
  void close(const std::string& cause);

  /// Whose pair with `peer` is for what this rank sends to it.
  gloo::transport::Context& sending(int peer) { return *contexts_[endpoint_.rank < peer ? 0 : 1]; }
  gloo::transport::Context& receiving(int peer) { return *contexts_[endpoint_.rank < peer ? 1 : 0]; }
  const GlooEndpoint& endpoint() const { return endpoint_; }

 private:
  using Clock = std::chrono::steady_clock;

  void publish_addresses();
  /// Bytes of one address.
  std::size_t address_length();
  std::string wait_for_addresses(int peer, Clock::time_point deadline);
  void throw_if_closed();
  [[noreturn]] void throw_missing(Milliseconds timeout);
  std::string key(int rank) const;

  const std::string group_;
  const GlooEndpoint endpoint_;
  std::shared_ptr<gloo::transport::Device> device_;
  /// What the lower rank of two sends, and what the higher one does.
  std::array<std::shared_ptr<gloo::transport::Context>, 2> contexts_;

  std::mutex mutex_;
  std::atomic<bool> is_closed_ = false;
  std::string cause_;
};

/// Gloo's message without the place in its sources, on one line.
std::string gloo_reason(const std::exception& error);

}  // namespace tandem::distributed
