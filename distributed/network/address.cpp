#include "tandem/distributed/network/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "tandem/core/error.h"
#include "tandem/distributed/network/deadline.h"
#include "tandem/distributed/notice.h"

namespace tandem::distributed {
namespace {

Address make_address(const sockaddr* data, socklen_t length) {
  Address address;
  address.length = std::min<socklen_t>(length, sizeof(address.storage));
  std::memcpy(&address.storage, data, address.length);
  return address;
}

// No addresses and getaddrinfo's code where it fails.
std::pair<std::vector<Address>, int> look_up(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(without_brackets(host).c_str(), nullptr, &hints, &list);
  if (code != 0) return {{}, code};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    const Address address = make_address(entry->ai_addr, entry->ai_addrlen);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
  }
  return {addresses, 0};
}

std::optional<Address> literal(const std::string& host) {
  const auto addresses = look_up(host, AI_NUMERICHOST).first;
  return addresses.empty() ? std::nullopt : std::optional(addresses.front());
}

bool is_link_local(const Address& address) {
  if (address.family() != AF_INET6) return false;
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

struct Interface {
  std::string name;
  Address address;
};

// Those that are up, IPv4 first, then IPv6, then IPv6 of one link.
std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) core::fail("cannot list the network interfaces: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<Interface> result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    result.push_back({entry->ifa_name, make_address(entry->ifa_addr, length)});
  }
  const auto order = [](const Interface& interface) {
    return interface.address.family() == AF_INET ? 0 : is_link_local(interface.address) ? 2 : 1;
  };
  std::stable_sort(result.begin(), result.end(),
                   [&](const Interface& a, const Interface& b) { return order(a) < order(b); });
  return result;
}

}  // namespace

std::uint16_t Address::port() const {
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

void Address::set_port(std::uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  }
}

std::string Address::host() const {
  char text[NI_MAXHOST] = "";
  if (getnameinfo(data(), length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return text;
}

std::string Address::str() const { return host_and_port(host(), port()); }

bool Address::operator==(const Address& other) const {
  return length == other.length && std::memcmp(&storage, &other.storage, length) == 0;
}

std::string host_and_port(const std::string& host, std::uint16_t port) {
  const bool needs_brackets = host.find(':') != std::string::npos && host.front() != '[';
  return needs_brackets ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string without_brackets(const std::string& host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') return host.substr(1, host.size() - 2);
  return host;
}

Endpoint parse_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const bool is_cut = colon == std::string::npos || text.find(']', colon) != std::string::npos;
  if (is_cut || colon == 0) core::fail("'{}' is not HOST:PORT, as in node1:29500 or [::1]:29500", text);
  const std::string host = text.substr(0, colon);
  if ((host.front() == '[') != (host.back() == ']') ||
      without_brackets(host).find_first_of("[]/ ") != std::string::npos) {
    core::fail("'{}': '{}' is no host, as in node1:29500 or [::1]:29500", text, host);
  }
  Endpoint endpoint{without_brackets(host), 0};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
  if (error != std::errc() || stop != end || endpoint.port == 0) {
    core::fail("'{}': '{}' is no port; it must be 1 to 65535", text, text.substr(colon + 1));
  }
  return endpoint;
}

std::vector<Address> resolve(const std::string& host, std::uint16_t port) {
  if (host.empty()) core::fail("a host name or address is missing");
  auto [addresses, code] = look_up(host, 0);
  if (code != 0) core::fail("the host '{}' has no address: {}", host, gai_strerror(code));
  if (addresses.empty()) core::fail("the host '{}' has neither an IPv4 nor an IPv6 address", host);
  for (Address& address : addresses) address.set_port(port);
  return addresses;
}

void await_name(const std::string& host, Milliseconds timeout) {
  constexpr Milliseconds kPause{250}, kPatience{5000};
  const Deadline deadline(timeout), patience(kPatience);
  for (bool has_spoken = false;; std::this_thread::sleep_for(kPause)) {
    const int code = look_up(host, 0).second;
    if (code == 0) return;
    if (deadline.has_passed())
      core::fail("the host '{}' has no address after {:g} s: {}", host, in_seconds(timeout), gai_strerror(code));
    if (patience.has_passed() && !std::exchange(has_spoken, true))
      print_notice(fmt::format("waiting for an address of the host '{}' ({})", host, gai_strerror(code)));
  }
}

bool is_loopback(const Address& address) {
  if (address.family() == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  const in6_addr& bytes = reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&bytes) || (IN6_IS_ADDR_V4MAPPED(&bytes) && bytes.s6_addr[12] == IN_LOOPBACKNET);
}

bool is_loopback(const std::string& address) {
  const auto parsed = literal(address);
  return parsed && is_loopback(*parsed);
}

void check_loopback_is_up() {
  const std::vector<Interface> all = interfaces();
  if (std::none_of(all.begin(), all.end(), [](const Interface& i) { return is_loopback(i.address); }))
    core::fail(
        "this machine has no loopback interface that is up, so its ranks cannot connect: bring it up "
        "(ip link set lo up), or meet in a file (--init file:///PATH) with --interface of another one");
}

std::string local_address_towards(const std::string& host) {
  std::string reason;
  // Connecting a UDP socket sends nothing: it asks the routing table. The port does not matter.
  for (const Address& target : resolve(host, 9)) {
    const int descriptor = socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0 && connect(descriptor, target.data(), target.length) == 0) {
      Address local;
      local.length = sizeof(local.storage);
      const bool is_known = getsockname(descriptor, reinterpret_cast<sockaddr*>(&local.storage), &local.length) == 0;
      close(descriptor);
      if (is_known) return local.host();
    } else {
      reason = std::strerror(errno);
      if (descriptor >= 0) close(descriptor);
    }
  }
  core::fail("no interface of this machine leads to {}: {}; name one with --interface", host, reason);
}

std::string address_of_interface(const std::string& name_or_address) {
  const std::vector<Interface> all = interfaces();
  const auto address = literal(name_or_address);
  std::string there_are;
  for (const Interface& interface : all) {
    if (interface.name == name_or_address) return interface.address.host();
    // Without the scope of a link-local address: it may be given without.
    std::string host = interface.address.host();
    if (address && (host == address->host() || host.substr(0, host.find('%')) == address->host())) return host;
    there_are += fmt::format("{}{} ({})", there_are.empty() ? "" : ", ", interface.name, host);
  }
  core::fail("'{}' is neither the name nor the address of a network interface here; there are {}", name_or_address,
             there_are);
}

std::vector<Address> listen_addresses(const std::string& host, std::uint16_t port) {
  std::vector<Address> addresses = resolve(host, port);
  if (literal(host) || host == "localhost") return addresses;
  if (std::none_of(addresses.begin(), addresses.end(), [](const Address& a) { return is_loopback(a); })) {
    return addresses;
  }
  for (const Interface& interface : interfaces()) {
    Address address = interface.address;
    if (is_loopback(address) || is_link_local(address)) continue;
    address.set_port(port);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace tandem::distributed
