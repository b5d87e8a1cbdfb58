#include "tandem/distributed/network/address.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/errors.h"

namespace tandem::distributed {
namespace {

std::vector<std::string> texts(const std::vector<Address>& addresses) {
  std::vector<std::string> result;
  result.reserve(addresses.size());
  for (const Address& address : addresses) result.push_back(address.str());
  return result;
}

using Texts = std::vector<std::string>;

TEST(Address, Endpoints) {
  EXPECT_EQ(parse_endpoint("node1:29500").host, "node1");
  EXPECT_EQ(parse_endpoint("node1:29500").port, 29500);
  EXPECT_EQ(parse_endpoint("[::1]:80").host, "::1");
  EXPECT_EQ(parse_endpoint("[::1]:80").port, 80);
  EXPECT_EQ(parse_endpoint("fe80::1%eth0:65535").host, "fe80::1%eth0");
  EXPECT_EQ(host_and_port("::1", 80), "[::1]:80");
  EXPECT_EQ(host_and_port("[::1]", 80), "[::1]:80");
  EXPECT_EQ(host_and_port("node1", 80), "node1:80");
  for (const char* wrong : {"", "node1", "[::1]", ":80"}) {
    TANDEM_EXPECT_ERROR(parse_endpoint(wrong), "is not HOST:PORT, as in node1:29500 or [::1]:29500");
  }
  for (const char* wrong : {"a:", "a:x", "a:-1", "a:+1", "a:0", "a:65536", "a:80 ", "a: 80", "a:99999999999"}) {
    TANDEM_EXPECT_ERROR(parse_endpoint(wrong), "is no port; it must be 1 to 65535");
  }
  for (const char* wrong : {"[::1:80", "::1]:80", "[]:80", "a b:80", "a/b:80", "[[::1]]:80"}) {
    TANDEM_EXPECT_ERROR(parse_endpoint(wrong), "is no host");
  }
}

TEST(Address, ResolvesLiterals) {
  EXPECT_EQ(texts(resolve("127.0.0.1", 80)), Texts{"127.0.0.1:80"});
  EXPECT_EQ(texts(resolve("::1", 80)), Texts{"[::1]:80"});
  EXPECT_EQ(texts(resolve("[::1]", 65535)), Texts{"[::1]:65535"});
  EXPECT_EQ(resolve("10.1.2.3", 7).front().host(), "10.1.2.3");
  EXPECT_EQ(resolve("10.1.2.3", 7).front().port(), 7);
}

TEST(Address, ResolvesNames) {
  for (const Address& address : resolve("localhost", 80)) EXPECT_TRUE(is_loopback(address)) << address.str();
  TANDEM_EXPECT_ERROR(resolve("no-such-host.invalid", 80), "the host 'no-such-host.invalid' has no address: ");
  TANDEM_EXPECT_ERROR(resolve("", 80), "missing");
  TANDEM_EXPECT_ERROR(resolve("[::1", 80), "the host '[::1' has no address");
}

TEST(Address, KnowsLoopback) {
  for (const char* address : {"127.0.0.1", "127.0.1.1", "127.255.0.3", "::1", "[::1]", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const char* address : {"128.0.0.1", "0.0.0.0", "::", "::2", "10.0.0.1", "localhost", "", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

TEST(Address, OfThisMachine) {
  EXPECT_TRUE(is_loopback(local_address_towards("127.0.0.1")));
  EXPECT_TRUE(is_loopback(local_address_towards("localhost")));
  EXPECT_EQ(address_of_interface("lo"), "127.0.0.1");
  EXPECT_EQ(address_of_interface("127.0.0.1"), "127.0.0.1");
  TANDEM_EXPECT_ERROR(
      address_of_interface("no0"),
      "'no0' is neither the name nor the address of a network interface here; there are lo (127.0.0.1)");
  TANDEM_EXPECT_ERROR(address_of_interface("203.0.113.77"), "lo (127.0.0.1)");
}

TEST(Address, ListensOnWhatWasAskedFor) {
  EXPECT_EQ(texts(listen_addresses("127.0.0.1", 80)), Texts{"127.0.0.1:80"});
  EXPECT_EQ(texts(listen_addresses("0.0.0.0", 80)), Texts{"0.0.0.0:80"});
  EXPECT_EQ(texts(listen_addresses("[::]", 80)), Texts{"[::]:80"});
  for (const Address& address : listen_addresses("localhost", 80)) EXPECT_TRUE(is_loopback(address)) << address.str();
}

// Whatever the machine's name stands for: other machines must reach the store, and no wildcard lets strangers in.
TEST(Address, ListensUnderItsOwnName) {
  char name[256] = "";
  ASSERT_EQ(gethostname(name, sizeof(name) - 1), 0);
  std::vector<Address> resolved;
  try {
    resolved = resolve(name, 80);
  } catch (const core::Error&) {
    TANDEM_EXPECT_ERROR(listen_addresses(name, 80), "has no address");
    return;
  }
  const auto listened = listen_addresses(name, 80);
  ASSERT_GE(listened.size(), resolved.size());
  EXPECT_TRUE(std::equal(resolved.begin(), resolved.end(), listened.begin()));
  if (std::string(name) == "localhost" ||
      std::none_of(resolved.begin(), resolved.end(), [](const Address& address) { return is_loopback(address); })) {
    EXPECT_EQ(listened.size(), resolved.size());
  }
  for (const Address& address : listened) {
    EXPECT_EQ(address.port(), 80);
    EXPECT_NE(address.host(), "0.0.0.0");
    EXPECT_NE(address.host(), "::");
    EXPECT_EQ(std::count(listened.begin(), listened.end(), address), 1) << address.str();
  }
}

}  // namespace
}  // namespace tandem::distributed
