#include "tools/bench/alone.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tandem/distributed/rank_settings.h"

namespace tandem::bench {

void check_is_alone(const char* subcommand, const char* advice) {
  const distributed::RankSettings settings = distributed::resolve_rank({});
  if (settings.world_size == 1) return;
  throw CLI::ValidationError(subcommand, fmt::format("measures one process, but this is one of {} ({} is {}): {}",
                                                     settings.world_size, settings.source, settings.rank, advice));
}

}  // namespace tandem::bench
