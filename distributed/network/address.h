// Network addresses: from names, of this machine, and of what a store listens on. IPv4 and IPv6.
//
// A host is a name ("node1") or a literal address ("10.0.0.7", "::1", "[::1]").
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

/// Of a socket.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  /// Literal: "127.0.0.1", "fe80::1%eth0".
  std::string host() const;
  /// "127.0.0.1:29500", "[::1]:29500".
  std::string str() const;
  bool operator==(const Address& other) const;
};

/// "::1" of "[::1]"; others as they are.
std::string without_brackets(const std::string& host);

struct Endpoint {
  std::string host;  ///< without brackets
  std::uint16_t port = 0;
};
/// Of "HOST:PORT", "[::1]:29500" or "::1:29500". Throws Error that says what is wrong; port 0 is.
Endpoint parse_endpoint(const std::string& text);
/// "node1:29500", "[::1]:29500": for messages and URLs.
std::string host_and_port(const std::string& host, std::uint16_t port);

/// All addresses that a host stands for, the preferred one first. Throws Error where it has none.
std::vector<Address> resolve(const std::string& host, std::uint16_t port);
/// Waits until `host` has an address, and says so after a while: a name may come into DNS after the machine. Throws
/// Error after `timeout`.
void await_name(const std::string& host, Milliseconds timeout);
/// Whether it is one of this machine to itself: 127.0.0.0/8, ::1. False for names.
bool is_loopback(const std::string& address);
bool is_loopback(const Address& address);

/// Throws Error if this machine cannot connect to itself, as in a network namespace whose loopback interface is down.
void check_loopback_is_up();

/// This machine's address, literal, of the interface that leads to `host`. Throws Error where no route does.
std::string local_address_towards(const std::string& host);
/// The address, literal, of an interface of this machine that is named, or that has the given address; IPv4 first.
/// Throws Error that lists the interfaces there are.
std::string address_of_interface(const std::string& name_or_address);

/// What a store that others reach as `host` listens on: the addresses that this stands for. A name (but for
/// "localhost") that stands for a loopback address here, as Debian's 127.0.1.1 for a machine's own name, stands for
/// another one on other machines: then those of this machine's interfaces, too. The wildcard only where it is asked
/// for. Throws Error where it has none.
std::vector<Address> listen_addresses(const std::string& host, std::uint16_t port);

}  // namespace tandem::distributed
