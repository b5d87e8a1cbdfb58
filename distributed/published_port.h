// How ranks on one machine learn the port of rank 0's store if nobody chose one: it is written into a file that only
// they know.
#pragma once

#include <cstdint>
#include <string>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

class PublishedPort {
 public:
  /// Writes `port`; the file is there whole or not at all. Throws Error if that cannot be.
  PublishedPort(std::string path, std::uint16_t port);
  /// Takes the file away.
  ~PublishedPort();
  PublishedPort(const PublishedPort&) = delete;
  PublishedPort& operator=(const PublishedPort&) = delete;

 private:
  std::string path_;
};

/// The port, once it is written. Throws TimeoutError.
std::uint16_t await_port(const std::string& path, Milliseconds timeout);

}  // namespace tandem::distributed
