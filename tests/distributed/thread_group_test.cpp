// Groups of threads: the collectives, and what is said when one fails.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "tandem/core/tensor.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/thread_group.h"
#include "tests/distributed/group_cases.h"
#include "tests/errors.h"

namespace {

using namespace std::chrono_literals;
using tandem::core::DType;
using tandem::core::Tensor;
using tandem::distributed::GroupOptions;
using tandem::distributed::PeerError;
using tandem::distributed::ProcessGroup;
using tandem::distributed::ReduceOp;
using tandem::distributed::ThreadNetwork;
using tandem::distributed::TimeoutError;
using tandem::testing::expect_contains;
using tandem::testing::MakeGroup;

// Each run of run_ranks joins a new group of a network of that size.
MakeGroup thread_groups() {
  struct State {
    std::mutex mutex;
    std::map<int, std::unique_ptr<ThreadNetwork>> networks;
    std::map<std::pair<int, int>, int> joined;
  };
  return [state = std::make_shared<State>()](int rank, int size) {
    const std::lock_guard lock(state->mutex);
    auto& network = state->networks[size];
    if (!network) network = std::make_unique<ThreadNetwork>(size);
    return network->join("group " + std::to_string(state->joined[{size, rank}]++), rank);
  };
}

class ThreadGroup : public ::testing::TestWithParam<int> {};

// Sizes around W, primes, and each plan's region: direct, halving-doubling, ring in one and several segments.
TEST_P(ThreadGroup, ReducesAllDtypesWithAllOperations) {
  tandem::testing::check_all_reduce(GetParam(), thread_groups(), {0, 1, 4, 5, 1009, 20011, 70001});
}
TEST_P(ThreadGroup, MeansHaveTheSameBitsEverywhere) {
  tandem::testing::check_scaled_mean(GetParam(), thread_groups(), {1, 7, 1009, 50021, 700001});
}
TEST_P(ThreadGroup, BroadcastsGathersAndScatters) {
  tandem::testing::check_others(GetParam(), thread_groups(), {0, 1, 3, 1009, 200003});
}
TEST_P(ThreadGroup, SendsAndReceives) { tandem::testing::check_send_recv(GetParam(), thread_groups()); }
TEST_P(ThreadGroup, RunsInTheOrderOfIssue) { tandem::testing::check_queue(GetParam(), thread_groups()); }

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadGroup, ::testing::Range(1, 6));

// Autograd takes a count of writes for a change: what was saved for backward may be sent.
TEST(ThreadGroups, TensorsThatAreOnlyReadDoNotCountAsChanged) {
  tandem::testing::run_ranks(2, thread_groups(), [](ProcessGroup& group) {
    Tensor read = Tensor::full({3}, group.rank()), written = Tensor::zeros({2, 3});
    const auto before = std::pair(read.version(), written.version());
    group.all_gather(read, written)->wait();
    if (group.rank() == 0) group.send(read, 1)->wait();
    if (group.rank() == 1) group.recv(written.slice(0, 0, 1), 0)->wait();
    EXPECT_EQ(read.version(), before.first);
    EXPECT_GT(written.version(), before.second);
    const auto saved = read.version();
    group.all_reduce(read)->wait();
    EXPECT_GT(read.version(), saved);
  });
}

TEST(ThreadNetwork, RefusesRanksThatAreNotThereOrTwice) {
  TANDEM_EXPECT_ERROR(ThreadNetwork(0), "needs at least 1 rank, got 0");
  ThreadNetwork network(2);
  TANDEM_EXPECT_ERROR(network.join("a", 2), "group a: no rank 2 among 2 threads");
  const auto group = network.join("a", 0);
  TANDEM_EXPECT_ERROR(network.join("a", 0), "group a: rank 0 has joined it already");
}

TEST(ThreadGroupFailure, LeavingPeerIsNamed) {
  ThreadNetwork network(2);
  const auto group = network.join("gradients", 0);
  auto other = network.join("gradients", 1);
  const auto work = group->all_reduce(Tensor::zeros({5}), {.label = "bucket 3 (conv1.weight)"});
  other.reset();
  try {
    work->wait();
    FAIL();
  } catch (const PeerError& error) {
    EXPECT_STREQ(
        error.what(),
        "all_reduce 0 of gradients, bucket 3 (conv1.weight): lost the connection to rank 1: it left the group");
  }
  TANDEM_EXPECT_ERROR(group->barrier()->wait(), "lost the connection to rank 1");
}

TEST(ThreadGroupFailure, AbortWakesAWaitFromAnotherThread) {
  ThreadNetwork network(2);
  const auto group = network.join("gradients", 0);
  const auto other = network.join("gradients", 1);
  const auto work = group->all_reduce(Tensor::zeros({1000000}));
  std::thread aborter([&] { group->abort("rank 5 ran out of memory"); });
  TANDEM_EXPECT_ERROR(work->wait(), "all_reduce 0 of gradients: rank 5 ran out of memory");
  aborter.join();
  TANDEM_EXPECT_ERROR(group->barrier()->wait(), "rank 5 ran out of memory");
  TANDEM_EXPECT_ERROR(other->barrier()->wait(), "lost the connection to rank 0");
}

TEST(ThreadGroupFailure, DeadlineNamesWhoIsWaitedFor) {
  ThreadNetwork network(3);
  const GroupOptions options = {.timeout = 100ms, .watch = nullptr};
  const auto first = network.join("loss", 0, options);
  const auto second = network.join("loss", 1, options);
  const auto absent = network.join("loss", 2, options);
  const auto work = first->all_reduce(Tensor::zeros({3}));
  EXPECT_THROW(second->all_reduce(Tensor::zeros({3}))->wait(), PeerError);
  try {
    work->wait();
    FAIL();
  } catch (const PeerError& error) {
    expect_contains(error.what(), "all_reduce 0 of loss: ");
  }
}

TEST(ThreadGroupFailure, DifferentSizesAreErrorsOnBoth) {
  for (const std::int64_t numel : {1, 10000, 1000000}) {
    ThreadNetwork network(2);
    const auto group = network.join("gradients", 0);
    const auto other = network.join("gradients", 1);
    const auto work = group->all_reduce(Tensor::zeros({numel}));
    const auto other_work = other->all_reduce(Tensor::zeros({numel * 2}));
    std::string messages = tandem::testing::error_of([&] { work->wait(); });
    messages += tandem::testing::error_of([&] { other_work->wait(); });
    expect_contains(messages, "ranks differ: rank");
    expect_contains(messages, "all_reduce 0 (sum, float32, " + std::to_string(numel * 4) + " bytes)");
  }
}

TEST(ThreadGroupFailure, DestructionEndsWhatIsQueued) {
  ThreadNetwork network(2);
  auto group = network.join("gradients", 0);
  const auto other = network.join("gradients", 1);
  const auto running = group->all_reduce(Tensor::zeros({10}));
  const auto queued = group->barrier();
  group.reset();
  TANDEM_EXPECT_ERROR(running->wait(), "the group was destroyed on this rank");
  TANDEM_EXPECT_ERROR(queued->wait(), "the group was destroyed on this rank");
}

TEST(ProcessGroup, RefusesWhatDoesNotFit) {
  ThreadNetwork network(2);
  const auto group = network.join("gradients", 0);
  const Tensor matrix = Tensor::zeros({4, 6});
  TANDEM_EXPECT_ERROR(group->all_reduce(Tensor()), "all_reduce: the tensor is undefined");
  TANDEM_EXPECT_ERROR(group->all_reduce(matrix.slice(1, 0, 3)), "must be dense");
  TANDEM_EXPECT_ERROR(group->all_reduce(Tensor::zeros({2}, {.dtype = DType::boolean})), "no sum or product");
  TANDEM_EXPECT_ERROR(group->all_reduce(Tensor::zeros({2}, {.dtype = DType::int64}), {.scale = 0.5}),
                      "a scale of 0.5 needs floating numbers, got int64");
  TANDEM_EXPECT_ERROR(group->broadcast(matrix, 2), "broadcast: no rank 2 in a group of 2");
  TANDEM_EXPECT_ERROR(group->send(matrix, 0), "send: rank 0 is this rank itself");
  TANDEM_EXPECT_ERROR(group->all_gather(matrix, Tensor::zeros({3, 4, 6})), "[4, 6] with 2 in front, got");
  TANDEM_EXPECT_ERROR(group->all_gather(matrix.select(0, 0).unsqueeze(0), matrix.slice(0, 0, 2).unsqueeze(1)),
                      "share memory");
  TANDEM_EXPECT_ERROR(group->reduce_scatter(matrix.transpose(0, 1), Tensor::zeros({4})), "must be contiguous");
}

TEST(ProcessGroup, TwoGroupsDoNotWaitForEachOther) {
  ThreadNetwork network(2);
  const auto group = network.join("a", 0), other = network.join("a", 1);
  const auto second = group->duplicate("b"), other_second = other->duplicate("b");
  const auto waiting = group->barrier();
  const auto done = second->barrier();
  other_second->barrier()->wait();
  done->wait();
  EXPECT_FALSE(waiting->is_done());
  other->barrier()->wait();
  waiting->wait();
}

}  // namespace
