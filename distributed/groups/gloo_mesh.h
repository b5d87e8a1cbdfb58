// A Gloo connection to every other rank, made through our store.
#pragma once

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

  gloo::transport::Context& context() { return *context_; }
  const GlooEndpoint& endpoint() const { return endpoint_; }

 private:
  using Clock = std::chrono::steady_clock;

  void publish_addresses();
  std::string wait_for_addresses(int peer, Clock::time_point deadline);
  void throw_if_closed();
  [[noreturn]] void throw_missing(Milliseconds timeout);
  std::string key(int rank) const;

  const std::string group_;
  const GlooEndpoint endpoint_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;

  std::mutex mutex_;
  std::atomic<bool> is_closed_ = false;
  std::string cause_;
};

/// Gloo's message without the place in its sources, on one line.
std::string gloo_reason(const std::exception& error);

}  // namespace tandem::distributed
