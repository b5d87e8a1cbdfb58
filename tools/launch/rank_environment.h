// What a rank finds in its environment.
#pragma once

#include <string>
#include <vector>

#include "tools/launch/options.h"

namespace tandem::launch {

struct RankPlace {
  int local_rank = 0;
  std::string master_addr;
  std::uint16_t master_port = 0;
  int restart = 0;  ///< how often the ranks have been started again
};

/// `inherited` (NAME=VALUE each) with what this rank needs in place of what has the same name.
std::vector<std::string> rank_environment(const Options& options, const RankPlace& place, int threads,
                                          const std::vector<std::string>& inherited);

/// Of this process.
std::vector<std::string> inherited_environment();

}  // namespace tandem::launch
