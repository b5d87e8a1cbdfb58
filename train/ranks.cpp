#include "tandem/train/ranks.h"

#include <set>

#include "tandem/distributed/agreement.h"
#include "tandem/distributed/groups/checked_group.h"
#include "tandem/distributed/groups/round_robin_group.h"

namespace tandem::train {
namespace {

using Group = std::shared_ptr<distributed::ProcessGroup>;

// Metrics and agreements are a few numbers on the host, whatever carries the gradients.
constexpr distributed::Backend kControlBackend = distributed::Backend::gloo;

Group checked(const RanksOptions& options, Group group) {
  return options.check_collectives ? distributed::make_checked_group(std::move(group)) : group;
}

// DistributedDataParallel duplicates what it is given: the group of metrics and agreements will do, if it uses the same
// back end.
Group make_gradients(const RanksOptions& options, distributed::World& world, const Group& group) {
  const auto count = static_cast<std::size_t>(options.round_robin_groups);
  if (count == 1 && options.backend == kControlBackend) return group;
  if (count == 1) return checked(options, world.make_group("gradients", options.backend));
  std::vector<Group> in_turn;
  for (std::size_t i = 0; i < count; ++i)
    in_turn.push_back(world.make_group(distributed::round_robin_name("gradients", i, count), options.backend));
  return checked(options, distributed::make_round_robin_group("gradients", std::move(in_turn)));
}

// Before groups are made, since settings decide which.
Group make_group(const RanksOptions& options, distributed::World& world) {
  distributed::verify_agreement(world, "the ranks' settings", options.settings, options.self.timeout);
  return checked(options, world.make_group("world", kControlBackend));
}

}  // namespace

Ranks::Ranks(const RanksOptions& options)
    : timeout_(options.self.timeout),
      world_(options.self),
      group_(make_group(options, world_)),
      gradients_(make_gradients(options, world_, group_)) {}

Ranks::Ranks() : Ranks(RanksOptions{.self = distributed::resolve_rank({})}) {}

std::int64_t Ranks::from_first(std::int64_t mine) {
  core::Tensor number = core::Tensor::from(std::vector{mine}, core::kCpu);
  group_->broadcast(number, 0, "number of rank 0")->wait();
  return number.to_vector<std::int64_t>().front();
}

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

}  // namespace tandem::train
