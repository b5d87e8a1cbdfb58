// Which of its addresses a rank gives to the others. How ranks meet is in world_test.cpp.
#include "tandem/distributed/rendezvous.h"

#include <gtest/gtest.h>

#include "tandem/distributed/network/address.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

Identity on_machine(const std::string& machine, const std::string& address) {
  Identity identity = own_identity();
  identity.host = "host-that-does-not-exist.invalid";
  identity.machine = machine;
  identity.address = address;
  return identity;
}

TEST(DataAddress, IsLoopbackOnOneMachineAndReachableOnSeveral) {
  EXPECT_EQ(choose_data_address({on_machine("a", "127.0.0.1"), on_machine("a", "127.0.0.1")}, 0), "127.0.0.1");
  EXPECT_EQ(choose_data_address({on_machine("a", "127.0.1.1"), on_machine("a", "10.0.0.1")}, 1), "127.0.0.1");
  EXPECT_EQ(choose_data_address({on_machine("a", "::1"), on_machine("a", "::1")}, 1), "::1");
  EXPECT_EQ(choose_data_address({on_machine("a", ""), on_machine("a", "")}, 1), "127.0.0.1");
  EXPECT_EQ(choose_data_address({on_machine("a", "10.0.0.1"), on_machine("b", "10.0.0.2")}, 1), "10.0.0.2");
  // The master itself reaches the store over loopback: the way to the others counts.
  std::string out;
  try {
    out = local_address_towards("192.0.2.1");
  } catch (const core::Error&) {
    GTEST_LOG_(INFO) << "no route to other machines here";
  }
  const std::vector<Identity> master{on_machine("a", "127.0.1.1"), on_machine("b", "192.0.2.1")};
  if (out.empty()) {
    TANDEM_EXPECT_ERROR(choose_data_address(master, 0), "--interface");
  } else {
    EXPECT_EQ(choose_data_address(master, 0), out);
  }
  TANDEM_EXPECT_ERROR(choose_data_address({on_machine("a", "127.0.0.1"), on_machine("b", "")}, 0), "--interface");
}

}  // namespace
}  // namespace tandem::distributed
