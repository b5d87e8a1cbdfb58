// Ranks that meet over every kind of store, and what each is told where that does not work. Each World here is a rank
// of its own, on a thread of this process.
#include "tandem/distributed/world.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "tandem/distributed/error.h"
#include "tandem/distributed/fields.h"
#include "tandem/distributed/rendezvous.h"
#include "tandem/distributed/stores/file_store.h"
#include "tandem/distributed/stores/memory_store.h"
#include "tandem/distributed/stores/tcp_store.h"
#include "tandem/distributed/stores/tcp_store_server.h"
#include "tests/data/temporary_folder.h"
#include "tests/distributed/eventually.h"
#include "tests/distributed/expect_sum.h"
#include "tests/errors.h"
#include "tests/held_port.h"

namespace tandem::distributed {
namespace {

using data::TemporaryFolder;
using testing::eventually;
using testing::expect_contains;
using testing::run_threads;
using Meeting = RankSettings::Meeting;

constexpr const char* kHere = "127.0.0.1";
constexpr Milliseconds kNow{0}, kLong{60000};
// A process that is not there: larger than any that Linux gives.
constexpr std::int64_t kNoProcess = 0x7ffffffe;

RankSettings settings_of(int rank, int size, Meeting meeting) {
  RankSettings settings;
  settings.rank = rank;
  settings.world_size = size;
  settings.meeting = meeting;
  settings.source = "--rank";
  settings.timeout = kLong;
  return settings;
}

/// Of a run whose rank 0 serves, or, with `served_by` "launch", somebody else.
RankSettings over_tcp(int rank, int size, std::uint16_t port, const std::string& served_by = "rank 0") {
  RankSettings settings = settings_of(rank, size, Meeting::tcp);
  settings.host = kHere;
  settings.port = port;
  settings.store_server = served_by;
  settings.serves_store = served_by == "rank 0" && rank == 0;
  return settings;
}

RankSettings over_file(int rank, int size, const std::filesystem::path& path) {
  RankSettings settings = settings_of(rank, size, Meeting::file);
  settings.path = path;
  return settings;
}

void expect_all_empty(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

/// Meets, exchanges a word, leaves: `settings_for(rank)`.
void expect_complete_run(int size, const std::function<RankSettings(int)>& settings_for) {
  std::atomic<int> came = 0;
  expect_all_empty(run_threads(size, [&](int rank) {
    World world(settings_for(rank));
    EXPECT_EQ(world.rank(), rank);
    EXPECT_EQ(world.size(), size);
    EXPECT_EQ(world.local_rank(), rank);
    EXPECT_EQ(world.local_size(), size);
    ASSERT_EQ(world.members().size(), static_cast<std::size_t>(size));
    EXPECT_EQ(world.members()[0].process, ::getpid());
    EXPECT_FALSE(world.members()[0].host.empty());
    world.store().set("word/" + std::to_string(rank), "hello");
    EXPECT_EQ(world.store().get("word/" + std::to_string((rank + 1) % size), kLong), "hello");
    if (rank == size - 1) std::this_thread::sleep_for(Milliseconds(100));
    ++came;
    world.leave();
    EXPECT_EQ(came, size);
    world.leave();  // once more: nothing
  }));
}

TEST(World, OneRankAlone) {
  World world{RankSettings{}};
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.local_size(), 1);
  EXPECT_EQ(world.members().size(), 1U);
  world.store().set("key", "value");
  world.leave();
}

class WorldOfSize : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, WorldOfSize, ::testing::Values(2, 4));

TEST_P(WorldOfSize, OverTheLaunchersStore) {
  const TcpStoreServer server(kHere, 0);
  expect_complete_run(GetParam(), [&](int rank) { return over_tcp(rank, GetParam(), server.port(), "launch"); });
  TcpStore store(kHere, server.port(), kLong);
  EXPECT_FALSE(store.get(kFailureKey, kNow));
}

TEST_P(WorldOfSize, OverRankZerosStore) {
  const HeldPort port;
  expect_complete_run(GetParam(), [&](int rank) { return over_tcp(rank, GetParam(), port.number()); });
}

TEST_P(WorldOfSize, OverAFileThatTheLastOneRemoves) {
  const TemporaryFolder folder;
  for (int run = 0; run < 2; ++run) {
    expect_complete_run(GetParam(), [&](int rank) { return over_file(rank, GetParam(), folder / "store"); });
    EXPECT_FALSE(std::filesystem::exists(folder / "store"));
  }
}

TEST(World, ComesLate) {
  const HeldPort port;
  expect_all_empty(run_threads(2, [&](int rank) {
    // Rank 1 knocks before there is a server.
    if (rank == 0) std::this_thread::sleep_for(Milliseconds(300));
    World world(over_tcp(rank, 2, port.number()));
    world.leave();
  }));
}

TEST(World, ARankThatIsTakenIsRefusedAndTheOthersGoOn) {
  const TcpStoreServer server(kHere, 0);
  auto first = std::async(std::launch::async, [&] {
    World world(over_tcp(1, 2, server.port(), "launch"));
    world.leave();
  });
  TcpStore store(kHere, server.port(), kLong);
  EXPECT_TRUE(store.get("rank/1", kLong));
  TANDEM_EXPECT_ERROR(World(over_tcp(1, 2, server.port(), "launch")),
                      fmt::format("rank 1 is taken by process {} on host", ::getpid()));
  TANDEM_EXPECT_ERROR(World(over_tcp(1, 2, server.port(), "launch")), "give each process its own --rank");
  World zero(over_tcp(0, 2, server.port(), "launch"));
  zero.leave();
  first.get();
}

TEST(World, AnotherWorldSizeEndsTheRunForAll) {
  const TcpStoreServer server(kHere, 0);
  auto first =
      std::async(std::launch::async, [&] { TANDEM_EXPECT_ERROR(World(over_tcp(0, 2, server.port(), "launch")), "3"); });
  TcpStore store(kHere, server.port(), kLong);
  EXPECT_TRUE(store.get("member/0", kLong));
  const std::string error = testing::error_of([&] { World(over_tcp(1, 3, server.port(), "launch")); });
  expect_contains(error, "rank 1 (process");
  expect_contains(error, "says world size 3, but rank 0 (process");
  expect_contains(error, "says 2: start all ranks with the same one");
  first.get();
  EXPECT_EQ(Failure::decode(store.get(kFailureKey, kNow).value_or("")).cause, error);
}

// Rank 0 serves the store, and ends only when the others have read why.
TEST(World, AnotherWorldSizeEndsTheRunForAllWhereRankZeroServes) {
  const HeldPort port;
  const auto errors = run_threads(3, [&](int rank) { World(over_tcp(rank, rank == 2 ? 4 : 3, port.number())); });
  for (const std::string& error : errors) {
    expect_contains(error, "says world size");
    expect_contains(error, "start all ranks with the same one");
  }
}

TEST(World, ThePortIsInUse) {
  const TcpStoreServer server(kHere, 0);
  TANDEM_EXPECT_ERROR(World(over_tcp(0, 2, server.port())), std::to_string(server.port()));
}

TEST(World, NobodyServes) {
  const HeldPort port;
  RankSettings settings = over_tcp(1, 2, port.number());
  settings.timeout = Milliseconds(300);
  TANDEM_EXPECT_ERROR(World{settings}, std::to_string(settings.port));
}

TEST(World, WhoDoesNotComeIsNamed) {
  const TcpStoreServer server(kHere, 0);
  const auto errors = run_threads(2, [&](int rank) {
    RankSettings settings = over_tcp(rank == 0 ? 0 : 2, 4, server.port(), "launch");
    settings.timeout = Milliseconds(1000);
    World world(settings);
  });
  for (const std::string& error : errors) expect_contains(error, "ranks 1, 3 of 4 did not come to tcp://");
  // Who comes too late learns it at once.
  TANDEM_EXPECT_ERROR(World(over_tcp(1, 4, server.port(), "launch")), "ranks 1, 3 of 4 did not come");
}

TEST(World, AFailureEndsTheMeeting) {
  const TcpStoreServer server(kHere, 0);
  auto waiting = std::async(std::launch::async, [&] {
    TANDEM_EXPECT_ERROR(World(over_tcp(0, 2, server.port(), "launch")), "rank 1 was killed by signal 9");
  });
  TcpStore store(kHere, server.port(), kLong);
  EXPECT_TRUE(store.get("member/0", kLong));
  report_failure(store, {1, -1, "rank 1 was killed by signal 9 (Killed)"});
  waiting.get();
}

TEST(World, TheStoresEndEndsTheMeeting) {
  auto server = std::make_unique<TcpStoreServer>(kHere, 0);
  auto waiting = std::async(std::launch::async, [port = server->port()] {
    TANDEM_EXPECT_ERROR(World(over_tcp(1, 2, port, "launch")), "launch, which served it, has ended");
  });
  {
    TcpStore store(kHere, server->port(), kLong);
    EXPECT_TRUE(store.get("member/1", kLong));
  }
  server.reset();
  waiting.get();
}

TEST(World, ItsEndLeaves) {
  const HeldPort port;
  std::atomic<int> came = 0;
  expect_all_empty(run_threads(3, [&](int rank) {
    {
      World world(over_tcp(rank, 3, port.number()));
      const auto group = world.make_group("gradients");
      group->all_reduce(core::Tensor::full({3}, 1.0))->wait();
      if (rank == 2) std::this_thread::sleep_for(Milliseconds(100));
      ++came;
    }
    EXPECT_EQ(came, 3);
  }));
}

// Whoever is done first ends its group while others still take part in the last collective.
TEST(World, AGroupThatEndsCutsNobodyOff) {
  const HeldPort port;
  expect_all_empty(run_threads(3, [&](int rank) {
    World world(over_tcp(rank, 3, port.number()));
    for (int round = 0; round < 20; ++round) {
      core::Tensor numbers = core::Tensor::full({100000}, 1.0);
      world.make_group("round " + std::to_string(round))->all_reduce(numbers)->wait();
      EXPECT_EQ(numbers.to_vector<float>().back(), 3);
    }
  }));
}

// By its end, or by leave().
TEST(World, LeavingWhileOthersWaitInACollectiveIsAFailure) {
  const HeldPort port;
  for (const int quitter : {0, 1})  // rank 0 serves
    for (const bool calls_leave : {false, true}) {
      const auto errors = run_threads(3, [&](int rank) {
        World world(over_tcp(rank, 3, port.number()));
        const auto group = world.make_group("gradients");
        group->all_reduce(core::Tensor::full({3}, 1.0))->wait();
        if (rank == quitter) return calls_leave ? world.leave() : void();
        group->all_reduce(core::Tensor::full({3}, 1.0))->wait();
      });
      for (int rank = 0; rank < 3; ++rank) {
        const std::string& error = errors[static_cast<std::size_t>(rank)];
        if (rank == quitter && !calls_leave) {
          EXPECT_EQ(error, "");  // it was printed
          continue;
        }
        expect_contains(error, fmt::format("rank {} left before the end: rank ", quitter));
        expect_contains(error, " waits for it in all_reduce 1 of gradients");
      }
    }
}

TEST(World, AnExceptionIsAFailure) {
  const TcpStoreServer server(kHere, 0);
  const auto errors = run_threads(2, [&](int rank) {
    World world(over_tcp(rank, 2, server.port(), "launch"));
    if (rank == 1) throw std::runtime_error("out of luck");
    world.leave();
  });
  EXPECT_EQ(errors[0], "rank 1 left before the end because of an exception");
  EXPECT_EQ(errors[1], "out of luck");
}

TEST(World, ARankThatFailsSaysWhy) {
  const TcpStoreServer server(kHere, 0);
  const auto errors = run_threads(2, [&](int rank) {
    World world(over_tcp(rank, 2, server.port(), "launch"));
    const auto group = world.make_group("gradients");
    group->all_reduce(core::Tensor::full({3}, 1.0))->wait();
    if (rank == 1) return world.fail("out of luck");
    group->all_reduce(core::Tensor::full({3}, 1.0))->wait();
  });
  expect_contains(errors[0], "rank 1: out of luck");
  EXPECT_EQ(errors[1], "");
}

TEST(World, WhoDoesNotComeToTheEndIsNamed) {
  const TcpStoreServer server(kHere, 0);
  const auto errors = run_threads(2, [&](int rank) {
    RankSettings settings = over_tcp(rank, 2, server.port(), "launch");
    settings.timeout = Milliseconds(rank == 0 ? 3000 : 60000);
    World world(settings);
    world.watch().note("gradients", 1, "all_reduce of bucket 0");
    if (rank == 0) world.leave();
    EXPECT_TRUE(eventually([&] { return world.watch().failure().has_value(); }));
    world.leave();
  });
  expect_contains(errors[0], "rank 1 did not come to the end within 3 s (last: all_reduce of bucket 0)");
  expect_contains(errors[1], "rank 0 gave up: rank 1 did not come to the end");
}

TEST(World, AFileOfARunThatFailedIsNotTakenForThisOne) {
  const TemporaryFolder folder;
  const auto path = folder / "store";
  Identity ghost = own_identity();
  ghost.process = kNoProcess;
  EXPECT_TRUE(has_ended(ghost));
  EXPECT_FALSE(has_ended(own_identity()));
  {
    FileStore store(path);
    claim_rank(store, over_file(1, 2, path), ghost);
  }
  for (const int rank : {1, 0}) {  // the same rank, and another one
    const std::string error = testing::error_of([&] { World(over_file(rank, 2, path)); });
    expect_contains(error, "is left over from a run that did not end well (process 2147483646");
    expect_contains(error, "remove the file");
    expect_contains(error, path.string());
  }
  // Another size of that run's is no reason to look for a rank with the wrong size.
  TANDEM_EXPECT_ERROR(World(over_file(0, 3, path)), "remove the file");
}

TEST(World, AFilesRankThatIsTaken) {
  const TemporaryFolder folder;
  FileStore store(folder / "store");
  claim_rank(store, over_file(0, 2, folder / "store"), own_identity());
  TANDEM_EXPECT_ERROR(World(over_file(0, 2, folder / "store")),
                      "if that run has ended, remove " + (folder / "store").string());
}

TEST(World, StrangersInTheStore) {
  MemoryStore store;
  store.set("world_size", "nonsense");
  TANDEM_EXPECT_ERROR(claim_rank(store, settings_of(0, 2, Meeting::tcp), own_identity()), "who else uses this store?");
  TANDEM_EXPECT_ERROR(Identity::decode(""), "cannot be read");
  TANDEM_EXPECT_ERROR(Identity::decode(join_fields({"h", "x", "", "", "", ""})), "cannot be read");
  TANDEM_EXPECT_ERROR(Identity::decode(join_fields({"h", "1"})), "cannot be read");
  const Identity identity = own_identity();
  EXPECT_EQ(Identity::decode(identity.encode()).encode(), identity.encode());
}

TEST(World, AnInterfaceThatIsNotThere) {
  RankSettings settings = over_tcp(0, 2, 1);
  settings.interface = "nosuch0";
  TANDEM_EXPECT_ERROR(World{settings}, "nosuch0");
}

TEST(World, GroupsOfProcesses) {
  const TcpStoreServer server(kHere, 0);
  expect_all_empty(run_threads(3, [&](int rank) {
    World world(over_tcp(rank, 3, server.port(), "launch"));
    const auto gradients = expect_sum(world, "gradients"), metrics = expect_sum(world, "metrics");
    world.leave();
  }));
}

TEST(World, AGroupOfOneRank) {
  World world{RankSettings{}};
  const auto group = expect_sum(world, "gradients");
  world.leave();
}

}  // namespace
}  // namespace tandem::distributed
