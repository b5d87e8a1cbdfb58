// Gloo connections to every other rank, made through our store: one for each direction.
//
// A pair of Gloo's has one lock, which a thread that writes holds; Gloo's own thread, told that there is something to
// read, then asks again and again until it gets it. With a connection for each direction it reads from one while we
// write to the other.
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tandem/distributed/groups/gloo_group.h"
#include "tandem/distributed/network/deadline.h"

namespace gloo::transport {
class Context;
class Device;
}  // namespace gloo::transport

namespace tandem::distributed {

class GlooMesh {
 public:
  /// Listens. Buffers may be registered from now on, and should be before connect(): Gloo's thread, with a message that
  /// has no buffer yet, asks for it again and again.
  GlooMesh(std::string group, GlooEndpoint endpoint);
  /// Buffers are gone before.
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  /// Collective. Throws PeerError naming the ranks that did not come, or that could not be reached; after close() with
  /// its cause.
  void connect(Milliseconds timeout);
  bool is_connected() const { return is_connected_; }
  // From any thread.
  /// Ends connect() and all connections: waits on either side end with an exception.
  void close(const std::string& cause);
  /// Only the waits on this side end; the others do not notice yet.
  void interrupt();

  /// Gives the system room for what is sent to `peer`. Gloo makes just enough for the longest message so far, with
  /// which a sender waits for an acknowledgement that the receiver delays by 40 ms: to be called after each that is
  /// longer.
  void widen(int peer);

  /// Whose pair with `peer` is for what this rank sends to it.
  gloo::transport::Context& sending(int peer) { return *contexts_[sending_index(peer)]; }
  gloo::transport::Context& receiving(int peer) { return *contexts_[1 - sending_index(peer)]; }
  const GlooEndpoint& endpoint() const { return endpoint_; }

 private:
  std::size_t sending_index(int peer) const { return endpoint_.rank < peer ? 0 : 1; }
  void connect_all(Milliseconds timeout);
  std::string address_of(int peer, gloo::transport::Context& context) const;
  std::string publish_addresses();
  /// Bytes of one address.
  std::size_t address_length();
  std::string wait_for_addresses(int peer, const Deadline& deadline);
  /// Takes hold of the sockets of a connected pair.
  int find_socket(int peer, gloo::transport::Context& context, const std::string& own_port,
                  const std::string& peer_port);
  void shut_down(int how);
  void throw_if_closed();
  [[noreturn]] void throw_missing(Milliseconds timeout);
  std::string key(int rank) const;

  const std::string group_;
  const GlooEndpoint endpoint_;
  std::shared_ptr<gloo::transport::Device> device_;
  /// What the lower rank of two sends, and what the higher one does.
  std::array<std::shared_ptr<gloo::transport::Context>, 2> contexts_;

  std::mutex mutex_;
  // Descriptors of our own, by context and rank: shutdown() is the only way to end a wait in Gloo at will.
  std::array<std::vector<int>, 2> sockets_;
  std::atomic<bool> is_connected_ = false, is_closed_ = false;
  std::string cause_;
};

/// Gloo's message without the place in its sources, on one line.
std::string gloo_reason(const std::exception& error);

}  // namespace tandem::distributed
