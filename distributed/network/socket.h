// A TCP socket that closes itself: non-blocking, not inherited by child processes, without delay for small messages,
// and without SIGPIPE.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/core/error.h"
#include "tandem/distributed/network/address.h"
#include "tandem/distributed/network/deadline.h"

namespace tandem::distributed {

/// Another listens there already.
class PortInUseError : public core::Error {
 public:
  using Error::Error;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  /// Throws PortInUseError that says what to do, or Error that says why not.
  static Socket listen(const Address& address);
  /// Throws TimeoutError, or PeerError with the system's reason: "connection refused".
  static Socket connect(const Address& address, const Deadline& deadline);

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close();

  /// Who waits to be accepted; none where nobody does, or there is no descriptor, or memory, left for it.
  std::optional<Socket> accept(bool& is_out_of_descriptors);
  /// Appends what has arrived, some 64 KiB at most; false where nothing has. Throws PeerError where the other side has
  /// closed the connection or it is lost.
  bool receive(std::string& bytes);
  /// How many bytes the system took, perhaps 0. Throws PeerError where the connection is lost.
  std::size_t send(std::string_view bytes);
  /// Waits until there is something to read (or to write); false where the deadline passed first.
  bool wait_to_receive(const Deadline& deadline) const;
  bool wait_to_send(const Deadline& deadline) const;

  /// This side's, and the other's. Throw PeerError where the connection is lost.
  Address local_address() const;
  Address peer_address() const;

 private:
  int descriptor_ = -1;
};

/// Why the system said no, in lower case: "connection refused".
std::string system_reason(int code);

}  // namespace tandem::distributed
