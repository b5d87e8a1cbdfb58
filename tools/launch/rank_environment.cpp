#include "tools/launch/rank_environment.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace tandem::launch {
namespace {

void set(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  environment.push_back(name + "=" + value);
}

void set_if_missing(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  if (std::none_of(environment.begin(), environment.end(),
                   [&](const std::string& entry) { return entry.starts_with(name + "="); }))
    environment.push_back(name + "=" + value);
}

// Another one for each launch: ranks that are started again find what is theirs by it.
const std::string& launch_id() {
  static const std::string id =
      fmt::format("{}-{}", std::chrono::system_clock::now().time_since_epoch().count(), getpid());
  return id;
}

}  // namespace

std::vector<std::string> rank_environment(const Options& options, const RankPlace& place, int threads,
                                          const std::vector<std::string>& inherited) {
  std::vector<std::string> environment = inherited;
  // Where this launcher runs under torchrun: its ranks do not.
  std::erase_if(environment, [](const std::string& entry) {
    return entry.starts_with("TORCHELASTIC_") || entry.starts_with("TANDEM_RESTART=") ||
           entry.starts_with("TANDEM_LAUNCH_ID=");
  });
  set(environment, "RANK", std::to_string(options.first_rank() + place.local_rank));
  set(environment, "WORLD_SIZE", std::to_string(options.world_size()));
  set(environment, "LOCAL_RANK", std::to_string(place.local_rank));
  set(environment, "LOCAL_WORLD_SIZE", std::to_string(options.ranks));
  set(environment, "MASTER_ADDR", place.master_addr);
  set(environment, "MASTER_PORT", std::to_string(place.master_port));
  set(environment, "TANDEM_LAUNCH", "1");
  if (options.max_restarts > 0) set(environment, "TANDEM_LAUNCH_ID", launch_id());
  if (place.restart > 0) set(environment, "TANDEM_RESTART", std::to_string(place.restart));
  set_if_missing(environment, "OMP_NUM_THREADS", std::to_string(threads));
  // Threads that wait for work would take the cores from those that send gradients.
  set_if_missing(environment, "OMP_WAIT_POLICY", "passive");
  return environment;
}

std::vector<std::string> inherited_environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; entry && *entry; ++entry) environment.emplace_back(*entry);
  return environment;
}

}  // namespace tandem::launch
