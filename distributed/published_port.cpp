#include "tandem/distributed/published_port.h"

#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "tandem/distributed/error.h"
#include "tandem/distributed/network/deadline.h"

namespace tandem::distributed {

PublishedPort::PublishedPort(std::string path, std::uint16_t port) : path_(std::move(path)) {
  const std::string unfinished = path_ + ".part";
  std::ofstream file(unfinished, std::ios::trunc);
  file << port << '\n';
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(unfinished, path_, error);
  if (!file || error)
    core::fail(
        "{} cannot be written, so the other ranks do not learn where to meet: set MASTER_ADDR and MASTER_PORT, "
        "or give --init",
        path_);
}

PublishedPort::~PublishedPort() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::uint16_t await_port(const std::string& path, Milliseconds timeout) {
  constexpr Milliseconds kPause{20};
  const Deadline deadline(timeout);
  do {
    std::uint16_t port = 0;
    if (std::ifstream(path) >> port && port != 0) return port;
    std::this_thread::sleep_for(kPause);
  } while (!deadline.has_passed());
  throw TimeoutError(
      fmt::format("rank 0 did not write its port into {} within {:g} s: is it running?", path, in_seconds(timeout)));
}

}  // namespace tandem::distributed
