#include "tandem/distributed/rendezvous.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "tandem/distributed/error.h"
#include "tandem/distributed/fields.h"
#include "tandem/distributed/network/address.h"
#include "tandem/distributed/notice.h"

namespace tandem::distributed {
namespace {

using Clock = AwakeClock;

constexpr Milliseconds kNow{0};
constexpr Milliseconds kSlice{100};      // a failure ends a wait within this
constexpr Milliseconds kPatience{5000};  // before it is said whom a rank waits for
constexpr std::size_t kMaxNamed = 5;     // ranks in one message

std::string claim_key(int rank) { return fmt::format("rank/{}", rank); }
std::string member_key(int rank) { return fmt::format("member/{}", rank); }

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string name_space(const char* kind) {
  std::error_code error;
  return std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind, error).string();
}

/// Ends the run for whoever else has come, and this rank with it.
[[noreturn]] void refuse(Store& store, const RankSettings& settings, const std::string& cause) {
  report_failure(store, {settings.rank, settings.rank, cause});
  throw core::Error(cause);
}

/// Whoever has written to a store of this run is alive; a file keeps what an earlier run wrote.
void refuse_left_over(Store& store, const RankSettings& settings, const Identity& other) {
  if (settings.meeting != RankSettings::Meeting::file || !has_ended(other)) return;
  refuse(store, settings,
         fmt::format("rank {}: {} is left over from a run that did not end well ({} has ended): remove the file",
                     settings.rank, settings.path, other.str()));
}

void check_world_size(Store& store, const RankSettings& settings, const Identity& identity) {
  const auto own = join_fields({std::to_string(settings.world_size), std::to_string(settings.rank), identity.encode()});
  const auto held = store.compare_and_set(kWorldSizeKey, std::nullopt, own);
  if (held == own) return;
  const auto fields = split_fields(held.value_or(""));
  if (!fields || fields->size() != 3) {
    core::fail("rank {}: {} holds something else than a world size: who else uses this store?", settings.rank,
               store.str());
  }
  const Identity other = Identity::decode((*fields)[2]);
  refuse_left_over(store, settings, other);
  if ((*fields)[0] == std::to_string(settings.world_size)) return;
  refuse(store, settings,
         fmt::format("rank {} ({}) says world size {}, but rank {} ({}) says {}: start all ranks with the same one",
                     settings.rank, identity.str(), settings.world_size, one_line((*fields)[1], 20), other.str(),
                     one_line((*fields)[0], 20)));
}

std::vector<int> missing_members(Store& store, const RankSettings& settings) {
  std::vector<int> missing;
  for (int rank = 0; rank < settings.world_size; ++rank) {
    if (!store.get(member_key(rank), kNow)) missing.push_back(rank);
  }
  return missing;
}

/// "rank 1", "ranks 1, 3".
std::string name_ranks(std::vector<int> ranks) {
  const bool more = ranks.size() > kMaxNamed;
  const char* const noun = ranks.size() == 1 ? "rank" : "ranks";
  ranks.resize(std::min(ranks.size(), kMaxNamed));
  return fmt::format("{} {}{}", noun, fmt::join(ranks, ", "), more ? ", ..." : "");
}

[[noreturn]] void give_up(Store& store, Watch& watch, const RankSettings& settings, const std::vector<int>& missing,
                          const std::string& listening) {
  const auto cause = fmt::format("{} of {} did not come to {} within {:g} s{}", name_ranks(missing),
                                 settings.world_size, store.str(), in_seconds(settings.timeout), listening);
  const Failure first = watch.report({missing.front(), settings.rank, cause});
  throw TimeoutError(fmt::format("rank {}: {}", settings.rank, first.cause));
}

}  // namespace

std::string Identity::encode() const {
  return join_fields({host, std::to_string(process), machine, process_space, address, id});
}

Identity Identity::decode(const std::string& text) {
  const auto fields = split_fields(text);
  const auto process = fields && fields->size() == 6 ? parse_number((*fields)[1]) : std::nullopt;
  if (!process) core::fail("a rank introduced itself in words that cannot be read ({} bytes)", text.size());
  return {one_line((*fields)[0], 256), *process, (*fields)[2], (*fields)[3], one_line((*fields)[4], 256), (*fields)[5]};
}

std::string Identity::str() const { return fmt::format("process {} on host {}", process, host); }

Identity own_identity() {
  Identity identity;
  identity.host = host_name();
  identity.process = ::getpid();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (boot.empty()) boot = identity.host;
  identity.machine = boot + '/' + name_space("net");
  identity.process_space = boot + '/' + name_space("pid");
  std::random_device random;
  identity.id = fmt::format("{:08x}{:08x}", random(), random());
  return identity;
}

bool has_ended(const Identity& identity) {
  return identity.process_space == own_identity().process_space && identity.process > 0 &&
         ::kill(static_cast<pid_t>(identity.process), 0) != 0 && errno == ESRCH;
}

void claim_rank(Store& store, const RankSettings& settings, const Identity& identity) {
  check_world_size(store, settings, identity);
  if (settings.meeting == RankSettings::Meeting::file) {
    for (int rank = 0; rank < settings.world_size; ++rank) {
      if (const auto other = store.get(claim_key(rank), kNow)) {
        refuse_left_over(store, settings, Identity::decode(*other));
      }
    }
  }
  const auto held = store.compare_and_set(claim_key(settings.rank), std::nullopt, identity.encode());
  if (held == identity.encode()) return;
  core::fail("rank {} is taken by {}: give each process its own {}{}", settings.rank,
             Identity::decode(held.value_or("")).str(), settings.source,
             settings.path.empty() ? "" : fmt::format("; if that run has ended, remove {}", settings.path));
}

std::vector<Identity> meet_members(Store& store, Watch& watch, const RankSettings& settings, const Identity& identity,
                                   const std::string& place, Clock::time_point deadline) {
  store.set(member_key(settings.rank), identity.encode());
  const auto patience = Clock::now() + kPatience;
  bool has_spoken = false;
  std::vector<Identity> members;
  while (static_cast<int>(members.size()) < settings.world_size) {
    if (const auto known = watch.failure()) throw PeerError(known->cause);
    if (const auto member = store.get(member_key(static_cast<int>(members.size())), kSlice)) {
      members.push_back(Identity::decode(*member));
      continue;
    }
    const auto now = Clock::now();
    if (now < std::min(patience, deadline)) continue;
    const auto missing = missing_members(store, settings);
    if (missing.empty()) continue;
    const std::string listening = place.empty() ? "" : fmt::format("; rank {} listens on {}", settings.rank, place);
    if (now >= deadline) give_up(store, watch, settings, missing, listening);
    if (!std::exchange(has_spoken, true)) {
      print_notice(fmt::format("rank {}: waiting for {} of {} at {}{}", settings.rank, name_ranks(missing),
                               settings.world_size, store.str(), listening));
    }
  }
  return members;
}

std::string choose_data_address(const std::vector<Identity>& members, int rank) {
  const Identity& own = members[static_cast<std::size_t>(rank)];
  const auto is_elsewhere = [&](const Identity& other) { return other.machine != own.machine; };
  const auto can_be_reached = [](const std::string& address) { return !address.empty() && !is_loopback(address); };
  if (std::none_of(members.begin(), members.end(), is_elsewhere)) {
    return own.address.find(':') == std::string::npos ? "127.0.0.1" : "::1";
  }
  if (can_be_reached(own.address)) return own.address;
  // The master is reached over loopback where it is this machine: then the way to another one counts, whose address is
  // known unless all met in a file.
  for (const Identity& other : members) {
    if (!is_elsewhere(other)) continue;
    try {
      auto address = local_address_towards(can_be_reached(other.address) ? other.address : other.host);
      if (can_be_reached(address)) return address;
    } catch (const core::Error&) {  // The next one may do.
    }
  }
  core::fail(
      "rank {}: ranks run on several machines, but no address of host {} is known that leads to the others: give "
      "--interface",
      rank, own.host);
}

}  // namespace tandem::distributed
