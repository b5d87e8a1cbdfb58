// Groups over Gloo, each rank a thread with connections of its own: the same collectives, and what peers may do.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tandem/core/tensor.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/gloo_group.h"
#include "tandem/distributed/stores/memory_store.h"
#include "tests/distributed/group_cases.h"
#include "tests/errors.h"

namespace {

using namespace std::chrono_literals;
using tandem::core::DType;
using tandem::core::Tensor;
using tandem::distributed::GlooEndpoint;
using tandem::distributed::GroupOptions;
using tandem::distributed::make_gloo_group;
using tandem::distributed::MemoryStore;
using tandem::distributed::PeerError;
using tandem::distributed::ProcessGroup;
using tandem::distributed::TimeoutError;
using tandem::testing::error_of;
using tandem::testing::expect_contains;
using tandem::testing::MakeGroup;

using GroupPtr = std::shared_ptr<ProcessGroup>;

GlooEndpoint endpoint_of(const std::shared_ptr<MemoryStore>& store, int rank, int size) {
  return {.rank = rank, .size = size, .store = store, .address = "127.0.0.1"};
}

MakeGroup gloo_groups() {
  struct State {
    std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>();
    std::mutex mutex;
    std::map<std::pair<int, int>, int> joined;
  };
  return [state = std::make_shared<State>()](int rank, int size) {
    std::string name;
    {
      const std::lock_guard lock(state->mutex);
      name = std::to_string(size) + " ranks, group " + std::to_string(state->joined[{size, rank}]++);
    }
    return make_gloo_group(name, endpoint_of(state->store, rank, size), {.timeout = 60s, .watch = nullptr});
  };
}

// All members of one group, made at the same time.
std::vector<GroupPtr> make_all(int size, const GroupOptions& options = {}) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::future<GroupPtr>> futures;
  for (int rank = 0; rank < size; ++rank) {
    futures.push_back(std::async(
        std::launch::async, [=] { return make_gloo_group("gradients", endpoint_of(store, rank, size), options); }));
  }
  std::vector<GroupPtr> groups;
  for (auto& future : futures) groups.push_back(future.get());
  return groups;
}

class GlooGroup : public ::testing::TestWithParam<int> {};

TEST_P(GlooGroup, ReducesAllDtypesWithAllOperations) {
  tandem::testing::check_all_reduce(GetParam(), gloo_groups(), {0, 1, 5, 1009, 20011, 70001});
}
TEST_P(GlooGroup, MeansHaveTheSameBitsEverywhere) {
  tandem::testing::check_scaled_mean(GetParam(), gloo_groups(), {1, 1009, 50021, 1500001});
}
TEST_P(GlooGroup, BroadcastsGathersAndScatters) {
  tandem::testing::check_others(GetParam(), gloo_groups(), {0, 1, 1009, 200003});
}
TEST_P(GlooGroup, SendsAndReceives) { tandem::testing::check_send_recv(GetParam(), gloo_groups()); }
TEST_P(GlooGroup, RunsInTheOrderOfIssue) { tandem::testing::check_queue(GetParam(), gloo_groups()); }

INSTANTIATE_TEST_SUITE_P(Sizes, GlooGroup, ::testing::Range(1, 6));

TEST(GlooGroupFailure, AbsentRanksAreNamedWhenTheyDoNotCome) {
  const auto store = std::make_shared<MemoryStore>();
  const GroupOptions options = {.timeout = 300ms, .watch = nullptr};
  TANDEM_EXPECT_ERROR(make_gloo_group("gradients", endpoint_of(store, 1, 4), options),
                      "group gradients: after 0.3 s rank 1 still waits for rank 0, 2, 3 to come");
}

TEST(GlooGroupFailure, AddressesThatAreNotOursAreRefused) {
  const auto store = std::make_shared<MemoryStore>();
  GlooEndpoint endpoint = endpoint_of(store, 0, 2);
  endpoint.address = "203.0.113.7";
  TANDEM_EXPECT_ERROR(make_gloo_group("gradients", endpoint, {}), "rank 0 cannot listen on its address 203.0.113.7");
}

TEST(GlooGroupFailure, LeavingPeerIsNamed) {
  for (const std::int64_t numel : {5, 3000000}) {
    auto groups = make_all(2);
    const auto work = groups[0]->all_reduce(Tensor::zeros({numel}), {.label = "bucket 3 (conv1.weight)"});
    groups[1].reset();
    const std::string message = error_of([&] { work->wait(); });
    expect_contains(message, "all_reduce 0 of gradients, bucket 3 (conv1.weight): lost the connection to rank 1: ");
    TANDEM_EXPECT_ERROR(groups[0]->barrier()->wait(), "lost the connection to rank 1");
  }
}

TEST(GlooGroupFailure, AbortWakesAWaitFromAnotherThread) {
  for (const std::int64_t numel : {5, 3000000}) {
    const auto groups = make_all(2);
    const auto work = groups[0]->all_reduce(Tensor::zeros({numel}));
    std::thread aborter([&] { groups[0]->abort("rank 5 ran out of memory"); });
    TANDEM_EXPECT_ERROR(work->wait(), "all_reduce 0 of gradients: rank 5 ran out of memory");
    aborter.join();
    TANDEM_EXPECT_ERROR(groups[0]->barrier()->wait(), "rank 5 ran out of memory");
    TANDEM_EXPECT_ERROR(groups[1]->barrier()->wait(), "lost the connection to rank 0");
  }
}

TEST(GlooGroupFailure, DeadlineNamesWhoIsWaitedFor) {
  for (const std::int64_t numel : {5, 3000000}) {
    const auto groups = make_all(2, {.timeout = 1s, .watch = nullptr});
    const auto work = groups[0]->all_reduce(Tensor::zeros({numel}));
    EXPECT_THROW(
        try { work->wait(); } catch (const TimeoutError& error) {
          expect_contains(error.what(), "all_reduce 0 of gradients: not done after 1 s, waiting for rank 1");
          throw;
        },
        TimeoutError);
  }
}

TEST(GlooGroupFailure, DifferentSizesAreErrorsOnBoth) {
  for (const std::int64_t numel : {1, 3000, 10000, 1000000}) {
    for (const std::int64_t factor : {2, 100}) {
      const auto groups = make_all(2);
      const auto work = groups[0]->all_reduce(Tensor::zeros({numel}));
      const auto other_work = groups[1]->all_reduce(Tensor::zeros({numel * factor}));
      std::string messages = error_of([&] { work->wait(); });
      messages += error_of([&] { other_work->wait(); });
      expect_contains(messages, "ranks differ: rank");
      expect_contains(messages, "all_reduce 0 (sum, float32, " + std::to_string(numel * 4) + " bytes)");
    }
  }
}

TEST(GlooGroupFailure, DestructionEndsWhatIsQueuedWithinASecond) {
  auto groups = make_all(2);
  const auto running = groups[0]->all_reduce(Tensor::zeros({3000000}));
  const auto queued = groups[0]->barrier();
  const auto begin = std::chrono::steady_clock::now();
  groups[0].reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);  // a second, and what sanitizers take
  TANDEM_EXPECT_ERROR(running->wait(), "the group was destroyed on this rank");
  TANDEM_EXPECT_ERROR(queued->wait(), "the group was destroyed on this rank");
}

TEST(GlooGroup, DuplicatesRunBesideEachOther) {
  const auto groups = make_all(2);
  auto other = std::async(std::launch::async, [&] { return groups[1]->duplicate("loss"); });
  const auto second = groups[0]->duplicate("loss");
  const auto other_second = other.get();
  const auto waiting = groups[0]->barrier();
  const auto done = second->barrier();
  other_second->barrier()->wait();
  done->wait();
  EXPECT_FALSE(waiting->is_done());
  groups[1]->barrier()->wait();
  waiting->wait();
}

}  // namespace
