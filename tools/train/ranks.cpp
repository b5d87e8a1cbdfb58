#include "tools/train/ranks.h"

#include <omp.h>

#include <algorithm>
#include <set>

#include "tandem/distributed/agreement.h"

namespace tandem::train {
namespace {

distributed::RankSettings rank_settings(const Settings& settings) {
  distributed::RankOptions options{.rank = settings.rank,
                                   .world_size = settings.world_size,
                                   .local_rank = settings.local_rank,
                                   .local_world_size = settings.local_world_size,
                                   .init = settings.init,
                                   .interface = settings.interface};
  options.timeout = distributed::Milliseconds(settings.timeout_s * 1000);
  try {
    return distributed::resolve_rank(options);
  } catch (const core::Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

Ranks::Ranks(const Settings& settings) : world_(rank_settings(settings)), group_(world_.make_group("world")) {}

void Ranks::verify(const std::string& what, const std::vector<std::string>& lines) {
  distributed::verify_agreement(*group_, what, lines);
}

int Ranks::any_signal(int mine) {
  core::Tensor signal = core::Tensor::from(std::vector{std::int64_t{mine}});
  group_->all_reduce(signal, {.op = distributed::ReduceOp::max, .label = "signals"})->wait();
  return static_cast<int>(signal.item());
}

std::string Ranks::describe() const {
  std::set<std::string> hosts;
  for (const distributed::Member& member : world_.members()) hosts.insert(member.host);
  return fmt::format("{} on {} {}", size(), hosts.size(), hosts.size() == 1 ? "machine" : "machines");
}

Settings settings_of_rank(const Settings& settings, const Ranks& ranks) {
  Settings own = settings;
  if (!own.threads) own.threads = std::max(1, omp_get_num_procs() / ranks.world().local_size());
  if (ranks.is_first()) return own;
  own.out = own.checkpoint_dir = own.save_weights = own.save_grads = std::nullopt;
  own.checkpoint_every = std::nullopt;
  if (own.metrics) *own.metrics += fmt::format(".rank{}", ranks.rank());
  return own;
}

}  // namespace tandem::train
