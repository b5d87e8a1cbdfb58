// Ranks that are about to do different things, in every way, at three ranks that are threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tandem/core/tensor.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/checked_group.h"
#include "tandem/distributed/groups/gloo_group.h"
#include "tandem/distributed/groups/round_robin_group.h"
#include "tandem/distributed/groups/thread_group.h"
#include "tandem/distributed/stores/memory_store.h"
#include "tests/distributed/eventually.h"
#include "tests/distributed/group_cases.h"
#include "tests/errors.h"

namespace {

using namespace std::chrono_literals;
using tandem::core::DType;
using tandem::core::Tensor;
using tandem::distributed::GroupOptions;
using tandem::distributed::make_checked_group;
using tandem::distributed::make_gloo_group;
using tandem::distributed::make_round_robin_group;
using tandem::distributed::MemoryStore;
using tandem::distributed::PeerError;
using tandem::distributed::ProcessGroup;
using tandem::distributed::ReduceOp;
using tandem::distributed::ThreadNetwork;
using tandem::distributed::TimeoutError;
using tandem::distributed::WorkPtr;
using tandem::testing::error_of;
using tandem::testing::expect_contains;
using tandem::testing::MakeGroup;
using tandem::testing::run_ranks;

using GroupPtr = std::shared_ptr<ProcessGroup>;

MakeGroup checked_groups() {
  struct State {
    std::mutex mutex;
    std::map<int, std::unique_ptr<ThreadNetwork>> networks;
    std::map<std::pair<int, int>, int> joined;
  };
  return [state = std::make_shared<State>()](int rank, int size) {
    const std::lock_guard lock(state->mutex);
    auto& network = state->networks[size];
    if (!network) network = std::make_unique<ThreadNetwork>(size);
    return make_checked_group(network->join("group " + std::to_string(state->joined[{size, rank}]++), rank));
  };
}

class CheckedGroup : public ::testing::TestWithParam<int> {};

TEST_P(CheckedGroup, RunsAllCollectives) {
  tandem::testing::check_all_reduce(GetParam(), checked_groups(), {0, 5, 20011});
  tandem::testing::check_scaled_mean(GetParam(), checked_groups(), {1, 50021});
  tandem::testing::check_others(GetParam(), checked_groups(), {0, 1, 1009});
  tandem::testing::check_send_recv(GetParam(), checked_groups());
}
TEST_P(CheckedGroup, RunsInTheOrderOfIssue) { tandem::testing::check_queue(GetParam(), checked_groups()); }

INSTANTIATE_TEST_SUITE_P(Sizes, CheckedGroup, ::testing::Range(1, 5));

// Three ranks of "world/ddp", driven from one thread: nothing that they issue makes it wait.
struct Three {
  explicit Three(const GroupOptions& options = {}) {
    for (int rank = 0; rank < 3; ++rank) groups.push_back(make_checked_group(network.join("world/ddp", rank, options)));
  }
  /// Each rank issues one; returns what the ranks' Works end with.
  std::vector<std::string> errors_of(const std::function<WorkPtr(ProcessGroup&)>& usual, int odd_rank,
                                     const std::function<WorkPtr(ProcessGroup&)>& odd) {
    std::vector<WorkPtr> works;
    for (int rank = 0; rank < 3; ++rank) {
      ProcessGroup& group = *groups[static_cast<std::size_t>(rank)];
      works.push_back(rank == odd_rank ? odd(group) : usual(group));
    }
    std::vector<std::string> errors;
    errors.reserve(works.size());
    for (const WorkPtr& work : works) errors.push_back(error_of([&] { work->wait(); }));
    return errors;
  }

  ThreadNetwork network{3};
  std::vector<GroupPtr> groups;
};

// The same error on all ranks, word by word, whichever rank is the odd one.
void expect_difference(const std::function<WorkPtr(ProcessGroup&)>& usual, const std::string& usual_text,
                       const std::function<WorkPtr(ProcessGroup&)>& odd, const std::string& odd_text) {
  for (int odd_rank = 0; odd_rank < 3; ++odd_rank) {
    Three three;
    const std::string first = odd_rank == 0 ? odd_text : usual_text, other = odd_rank == 0 ? usual_text : odd_text;
    const std::string expected = fmt::format("collective 0 of world/ddp: rank 0 is at {}, rank {} at {}", first,
                                             odd_rank == 0 ? 1 : odd_rank, other);
    for (const std::string& error : three.errors_of(usual, odd_rank, odd)) EXPECT_EQ(error, expected);
  }
}

TEST(CheckedGroupDifference, KindAndShape) {
  expect_difference(
      [](ProcessGroup& group) { return group.all_reduce(Tensor::zeros({4096}), {.label = "bucket 1 (conv1.weight)"}); },
      "all_reduce (sum, float32 [4096]) of bucket 1 (conv1.weight)",
      [](ProcessGroup& group) { return group.broadcast(Tensor::zeros({3}), 0, "buffers"); },
      "broadcast (float32 [3], from rank 0) of buffers");
  expect_difference([](ProcessGroup& group) { return group.barrier(); }, "barrier",
                    [](ProcessGroup& group) {
                      return group.all_reduce(Tensor::zeros({2, 3}));
                    },
                    "all_reduce (sum, float32 [2, 3])");
  expect_difference(
      [](ProcessGroup& group) {
        return group.all_reduce(Tensor::zeros({2, 3}));
      },
      "all_reduce (sum, float32 [2, 3])",
      [](ProcessGroup& group) {
        return group.all_reduce(Tensor::zeros({3, 2}));
      },
      "all_reduce (sum, float32 [3, 2])");
}

TEST(CheckedGroupDifference, Operation) {
  expect_difference([](ProcessGroup& group) { return group.all_reduce(Tensor::zeros({5})); },
                    "all_reduce (sum, float32 [5])",
                    [](ProcessGroup& group) { return group.all_reduce(Tensor::zeros({5}), {.op = ReduceOp::max}); },
                    "all_reduce (max, float32 [5])");
}

TEST(CheckedGroupDifference, DType) {
  expect_difference([](ProcessGroup& group) { return group.all_reduce(Tensor::zeros({5})); },
                    "all_reduce (sum, float32 [5])",
                    [](ProcessGroup& group) { return group.all_reduce(Tensor::zeros({5}, {.dtype = DType::int32})); },
                    "all_reduce (sum, int32 [5])");
}

TEST(CheckedGroupDifference, Layout) {
  expect_difference(
      [](ProcessGroup& group) {
        return group.all_reduce(Tensor::zeros({1, 4, 6}));
      },
      "all_reduce (sum, float32 [1, 4, 6])",
      [](ProcessGroup& group) {
        return group.all_reduce(Tensor::zeros({1, 6, 4}).transpose(1, 2));
      },
      "all_reduce (sum, float32 [1, 4, 6], strides - 1 4)");
}

TEST(CheckedGroupDifference, Scale) {
  expect_difference([](ProcessGroup& group) { return group.all_reduce(Tensor::zeros({5}), {.scale = 0.25}); },
                    "all_reduce (sum, float32 [5], scale 0.25)",
                    [](ProcessGroup& group) { return group.all_reduce(Tensor::zeros({5}), {.scale = 0.5}); },
                    "all_reduce (sum, float32 [5], scale 0.5)");
}

TEST(CheckedGroupDifference, Root) {
  expect_difference([](ProcessGroup& group) { return group.broadcast(Tensor::zeros({5}), 1); },
                    "broadcast (float32 [5], from rank 1)",
                    [](ProcessGroup& group) { return group.broadcast(Tensor::zeros({5}), 2); },
                    "broadcast (float32 [5], from rank 2)");
}

TEST(CheckedGroupDifference, Label) {
  expect_difference([](ProcessGroup& group) { return group.barrier("bucket 1"); }, "barrier of bucket 1",
                    [](ProcessGroup& group) { return group.barrier("bucket 2"); }, "barrier of bucket 2");
}

TEST(CheckedGroupDifference, GatherAndScatter) {
  expect_difference(
      [](ProcessGroup& group) {
        return group.all_gather(Tensor::zeros({2}), Tensor::zeros({3, 2}));
      },
      "all_gather (float32 [2])",
      [](ProcessGroup& group) {
        return group.reduce_scatter(Tensor::zeros({3, 2}), Tensor::zeros({2}));
      },
      "reduce_scatter (sum, float32 [3, 2])");
}

TEST(CheckedGroupDifference, LongDescriptionsAreCutToOneLine) {
  Three three;
  const auto usual = [](ProcessGroup& group) { return group.barrier(std::string(5000, 'a') + "\n"); };
  const auto odd = [](ProcessGroup& group) { return group.barrier(std::string(5000, 'a') + "b\n"); };
  for (const std::string& error : three.errors_of(usual, 2, odd)) {
    expect_contains(error, "collective 0 of world/ddp: rank 0 is at barrier of aaaa");
    EXPECT_LT(error.size(), 1200u);
  }
}

// What agreed before a difference is done, what follows fails with the same words, and nothing waits.
TEST(CheckedGroupDifference, CountsAndStops) {
  Three three;
  std::vector<std::vector<WorkPtr>> works(3);
  std::vector<Tensor> sums;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ProcessGroup& group = *three.groups[rank];
    sums.push_back(Tensor::full({100000}, static_cast<double>(rank)));
    for (int i = 0; i < 17; ++i) works[rank].push_back(group.all_reduce(i == 16 ? sums[rank] : Tensor::zeros({100})));
    works[rank].push_back(rank == 2 ? group.broadcast(Tensor::zeros({3}), 0, "buffers")
                                    : group.all_reduce(Tensor::zeros({4096}), {.label = "bucket 1"}));
    works[rank].push_back(group.barrier());
  }
  const std::string expected =
      "collective 17 of world/ddp: rank 0 is at all_reduce (sum, float32 [4096]) of bucket 1, rank 2 at broadcast "
      "(float32 [3], from rank 0) of buffers";
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (std::size_t i = 0; i < 17; ++i) works[rank][i]->wait();
    EXPECT_EQ(sums[rank].to_vector<double>().back(), 3);
    EXPECT_EQ(error_of([&] { works[rank][17]->wait(); }), expected);
    EXPECT_EQ(error_of([&] { works[rank][18]->wait(); }), expected);
  }
}

// Over connections that each rank closes as soon as it knows.
TEST(CheckedGroupDifference, IsSaidOnAllRanksAlsoWhenTheFirstToKnowLeaves) {
  for (int round = 0; round < 10; ++round) {
    const auto store = std::make_shared<MemoryStore>();
    const auto errors = tandem::testing::run_threads(3, [&](int rank) {
      const auto group = make_checked_group(
          make_gloo_group("gradients", {.rank = rank, .size = 3, .store = store, .address = "127.0.0.1"},
                          {.timeout = 60s, .watch = nullptr}));
      group->all_reduce(Tensor::zeros({1000}))->wait();
      group->all_reduce(Tensor::zeros({rank == round % 3 ? 2 : 1000}))->wait();
    });
    const std::string usual = "all_reduce (sum, float32 [1000])", odd = "all_reduce (sum, float32 [2])";
    const std::string expected = "collective 1 of gradients: rank 0 is at " + (round % 3 == 0 ? odd : usual) +
                                 ", rank " + (round % 3 == 2 ? "2" : "1") + " at " + (round % 3 == 0 ? usual : odd);
    for (const std::string& error : errors) EXPECT_EQ(error, expected);
  }
}

TEST(CheckedGroupWork, SaysWhatTheCollectiveSent) {
  Three three;
  std::vector<WorkPtr> works;
  works.reserve(3);
  for (const GroupPtr& group : three.groups) works.push_back(group->all_reduce(Tensor::zeros({3000})));
  for (const WorkPtr& work : works) {
    work->wait();
    EXPECT_GE(work->bytes_sent(), 3000);
    EXPECT_LE(work->times().issued_ns, work->times().started_ns);
    EXPECT_LE(work->times().started_ns, work->times().finished_ns);
  }
}

TEST(CheckedGroupWork, SendsAreNotCompared) {
  Three three;
  Tensor received = Tensor::zeros({4});
  three.groups[0]->send(Tensor::full({4}, 9), 2);
  const WorkPtr work = three.groups[2]->recv(received, 0);
  std::vector<WorkPtr> barriers;
  for (const GroupPtr& group : three.groups) barriers.push_back(group->barrier());
  work->wait();
  EXPECT_EQ(received.to_vector<double>().front(), 9);
  for (const WorkPtr& barrier : barriers) barrier->wait();
}

TEST(CheckedGroupWork, WrapsGroupsThatTakeTurns) {
  ThreadNetwork network(3);
  const MakeGroup make = [&](int rank, int) {
    return make_checked_group(
        make_round_robin_group("all", {network.join("first", rank), network.join("second", rank)}));
  };
  run_ranks(3, make, [](ProcessGroup& group) {
    std::vector<WorkPtr> works;
    std::vector<Tensor> tensors;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(Tensor::full({1000}, i));
      works.push_back(group.all_reduce(tensors.back()));
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
      works[i]->wait();
      ASSERT_EQ(tensors[i].to_vector<double>().front(), 3.0 * static_cast<double>(i));
    }
  });
}

TEST(CheckedGroupFailure, DuplicatesCheckToo) {
  Three three;
  std::vector<GroupPtr> others;
  others.reserve(3);
  for (const GroupPtr& group : three.groups) others.push_back(group->duplicate("loss"));
  std::vector<WorkPtr> works;
  works.reserve(3);
  for (const GroupPtr& group : others) works.push_back(group->barrier(group->rank() == 1 ? "b" : "a"));
  for (const WorkPtr& work : works)
    TANDEM_EXPECT_ERROR(work->wait(), "collective 0 of loss: rank 0 is at barrier of a, rank 1 at barrier of b");
}

TEST(CheckedGroupFailure, WhoDoesNotComeIsNamedWithWhatIsWaitedFor) {
  Three three({.timeout = 500ms, .watch = nullptr});
  const WorkPtr work = three.groups[0]->all_reduce(Tensor::zeros({5}), {.label = "bucket 3"});
  EXPECT_THROW(
      try { work->wait(); } catch (const TimeoutError& error) {
        expect_contains(error.what(),
                        "all_gather 0 of world/ddp/check, comparing collective 0 of world/ddp: all_reduce (sum, "
                        "float32 [5]) of bucket 3: not done after 0.5 s, waiting for rank");
        throw;
      },
      TimeoutError);
}

TEST(CheckedGroupFailure, AbortWakesEverythingFromAnotherThread) {
  Three three;
  std::vector<WorkPtr> works;
  works.reserve(20);
  for (int i = 0; i < 20; ++i) works.push_back(three.groups[0]->barrier());
  std::thread aborter([&] { three.groups[0]->abort("rank 5 ran out of memory"); });
  for (const WorkPtr& work : works) TANDEM_EXPECT_ERROR(work->wait(), "rank 5 ran out of memory");
  aborter.join();
  EXPECT_THROW(three.groups[0]->barrier()->wait(), PeerError);
}

TEST(CheckedGroupFailure, DestructionEndsWhatIsPending) {
  Three three;
  std::vector<WorkPtr> works;
  works.reserve(20);
  for (int i = 0; i < 20; ++i) works.push_back(three.groups[0]->barrier());
  three.groups[0].reset();
  for (const WorkPtr& work : works) TANDEM_EXPECT_ERROR(work->wait(), "the group was destroyed on this rank");
}

}  // namespace
