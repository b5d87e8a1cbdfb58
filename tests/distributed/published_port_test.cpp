// The port that rank 0 leaves in a file.
#include "tandem/distributed/published_port.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "tandem/distributed/error.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

std::string own_path() {
  return (std::filesystem::temp_directory_path() / ("tandem-port-test-" + std::to_string(getpid()))).string();
}

TEST(PublishedPort, IsReadByWhoWaitsAndGoesWithItsOwner) {
  const std::string path = own_path();
  auto waiting = std::async(std::launch::async, [&] { return await_port(path, Milliseconds(60000)); });
  EXPECT_EQ(waiting.wait_for(Milliseconds(50)), std::future_status::timeout);
  {
    const PublishedPort published(path, 54321);
    EXPECT_EQ(waiting.get(), 54321);
    EXPECT_EQ(await_port(path, Milliseconds(0)), 54321);
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PublishedPort, NoneIsATimeoutAndAPlaceThatIsNotThereAnError) {
  EXPECT_THROW(await_port(own_path() + "-none", Milliseconds(20)), TimeoutError);
  TANDEM_EXPECT_ERROR(await_port(own_path() + "-none", Milliseconds(20)), "rank 0 did not write its port into ");
  TANDEM_EXPECT_ERROR(PublishedPort("/no/such/folder/port", 1),
                      "/no/such/folder/port cannot be written, so the other ranks do not learn where to meet");
}

}  // namespace
}  // namespace tandem::distributed
