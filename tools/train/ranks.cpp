#include "tools/train/ranks.h"

#include <set>

#include "tandem/core/thread_count.h"
#include "tandem/distributed/agreement.h"
#include "tandem/distributed/groups/checked_group.h"
#include "tandem/distributed/groups/round_robin_group.h"
#include "tools/train/settings/command_line.h"

namespace tandem::train {
namespace {

distributed::Milliseconds timeout_of(const Settings& settings) {
  return distributed::Milliseconds(settings.timeout_s * 1000);
}

distributed::RankSettings rank_settings(const Settings& settings) {
  distributed::RankOptions options{.rank = settings.rank,
                                   .world_size = settings.world_size,
                                   .local_rank = settings.local_rank,
                                   .local_world_size = settings.local_world_size,
                                   .init = settings.init,
                                   .interface = settings.interface};
  options.timeout = timeout_of(settings);
  try {
    return distributed::resolve_rank(options);
  } catch (const core::Error& error) {
    throw UsageError(error.what());
  }
}

using Group = std::shared_ptr<distributed::ProcessGroup>;

// Metrics and agreements are a few numbers on the host, whatever carries the gradients.
constexpr distributed::Backend kControlBackend = distributed::Backend::gloo;

Group checked(const Settings& settings, Group group) {
  return settings.check_collectives ? distributed::make_checked_group(std::move(group)) : group;
}

// DistributedDataParallel duplicates what it is given: the group of metrics and agreements will do, if it uses the same
// back end.
Group make_gradients(const Settings& settings, distributed::World& world, const Group& group) {
  const auto count = static_cast<std::size_t>(settings.round_robin_groups);
  const auto backend = settings.backend == "mpi" ? distributed::Backend::mpi : distributed::Backend::gloo;
  if (count == 1 && backend == kControlBackend) return group;
  if (count == 1) return checked(settings, world.make_group("gradients", backend));
  std::vector<Group> in_turn;
  for (std::size_t i = 0; i < count; ++i)
    in_turn.push_back(world.make_group(distributed::round_robin_name("gradients", i, count), backend));
  return checked(settings, distributed::make_round_robin_group("gradients", std::move(in_turn)));
}

// Before groups are made, since settings decide which.
Group make_group(const Settings& settings, distributed::World& world) {
  distributed::verify_agreement(world, "the ranks' settings", settings_of_run(settings), timeout_of(settings));
  return checked(settings, world.make_group("world", kControlBackend));
}

}  // namespace

Ranks::Ranks(const Settings& settings)
    : timeout_(timeout_of(settings)),
      world_(rank_settings(settings)),
      group_(make_group(settings, world_)),
      gradients_(make_gradients(settings, world_, group_)) {}

void Ranks::verify(const std::string& what, const std::vector<std::string>& lines) {
  distributed::verify_agreement(world_, what, lines, timeout_);
}

int Ranks::any_signal(int mine) {
  core::Tensor signal = core::Tensor::from(std::vector{std::int64_t{mine}}, core::kCpu);
  group_->all_reduce(signal, {.op = distributed::ReduceOp::max, .label = "signals"})->wait();
  return static_cast<int>(signal.item());
}

std::string Ranks::describe() const {
  std::set<std::string> hosts;
  for (const distributed::Member& member : world_.members()) hosts.insert(member.host);
  return fmt::format("{} on {} {}", size(), hosts.size(), hosts.size() == 1 ? "machine" : "machines");
}

Settings settings_of_rank(const Settings& settings, int rank, int local_size) {
  Settings own = settings;
  own.threads = core::threads_of_rank(own.threads, local_size);
  if (rank == 0) return own;
  own.out = own.checkpoint_dir = own.save_weights = own.save_model = own.save_grads = std::nullopt;
  if (own.profile_out) *own.profile_out += fmt::format(".rank{}", rank);
  if (own.metrics) *own.metrics += fmt::format(".rank{}", rank);
  return own;
}

}  // namespace tandem::train
