// Groups that take turns, over threads: right results, real overlap, failures that spread.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tandem/core/tensor.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/round_robin_group.h"
#include "tandem/distributed/groups/thread_group.h"
#include "tests/distributed/group_cases.h"
#include "tests/errors.h"

namespace {

using tandem::core::DType;
using tandem::core::Tensor;
using tandem::distributed::make_round_robin_group;
using tandem::distributed::PeerError;
using tandem::distributed::ProcessGroup;
using tandem::distributed::round_robin_name;
using tandem::distributed::ThreadNetwork;
using tandem::distributed::WorkPtr;
using tandem::testing::MakeGroup;
using tandem::testing::run_ranks;

using GroupPtr = std::shared_ptr<ProcessGroup>;

std::vector<GroupPtr> members(ThreadNetwork& network, const std::string& name, int rank, std::size_t count) {
  std::vector<GroupPtr> groups;
  for (std::size_t i = 0; i < count; ++i) groups.push_back(network.join(round_robin_name(name, i, count), rank));
  return groups;
}

MakeGroup round_robins(std::size_t count) {
  struct State {
    std::mutex mutex;
    std::map<int, std::unique_ptr<ThreadNetwork>> networks;
    std::map<std::pair<int, int>, int> joined;
  };
  return [count, state = std::make_shared<State>()](int rank, int size) {
    const std::lock_guard lock(state->mutex);
    auto& network = state->networks[size];
    if (!network) network = std::make_unique<ThreadNetwork>(size);
    const std::string name = "group " + std::to_string(state->joined[{size, rank}]++);
    return make_round_robin_group(name, members(*network, name, rank, count));
  };
}

class RoundRobinGroup : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  MakeGroup groups() const { return round_robins(static_cast<std::size_t>(std::get<1>(GetParam()))); }
};

TEST_P(RoundRobinGroup, RunsAllCollectives) {
  tandem::testing::check_all_reduce(size(), groups(), {0, 5, 20011});
  tandem::testing::check_scaled_mean(size(), groups(), {1, 50021});
  tandem::testing::check_others(size(), groups(), {0, 1, 1009});
  tandem::testing::check_send_recv(size(), groups());
}

TEST_P(RoundRobinGroup, ManyInFlightGiveRightSums) {
  run_ranks(size(), groups(), [](ProcessGroup& group) {
    std::vector<Tensor> tensors;
    std::vector<WorkPtr> works;
    for (int i = 0; i < 100; ++i) {
      tensors.push_back(Tensor::full({1 + i * 50}, i + group.rank(), {.dtype = DType::int64}));
      works.push_back(group.all_reduce(tensors.back()));
    }
    const int ranks = group.size();
    for (int i = 0; i < 100; ++i) {
      works[static_cast<std::size_t>(i)]->wait();
      for (const double value : tensors[static_cast<std::size_t>(i)].to_vector<double>())
        ASSERT_EQ(value, ranks * i + ranks * (ranks - 1) / 2) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(SizesAndGroups, RoundRobinGroup,
                         ::testing::Combine(::testing::Range(1, 5), ::testing::Values(1, 3, 5)));

// Rank 0 of groups that take turns; rank 1 takes part in each group by hand, and so decides which may go on.
struct Halves {
  explicit Halves(std::size_t count)
      : round_robin(make_round_robin_group("gradients", members(network, "gradients", 0, count))),
        others(members(network, "gradients", 1, count)) {}

  ThreadNetwork network{2};
  GroupPtr round_robin;
  std::vector<GroupPtr> others;
};

TEST(RoundRobinTurns, EachCollectiveGoesToTheNextGroup) {
  Halves halves(3);
  std::vector<WorkPtr> works;
  works.reserve(6);
  for (int i = 0; i < 6; ++i) works.push_back(halves.round_robin->barrier());
  for (const int i : {2, 0, 1, 5, 4, 3}) {  // group 2's first, while those before it wait
    const auto index = static_cast<std::size_t>(i);
    EXPECT_FALSE(works[index]->is_done()) << i;
    halves.others[index % 3]->barrier()->wait();
    works[index]->wait();
  }
}

TEST(RoundRobinTurns, LongCollectivesOverlap) {
  Halves halves(3);
  Tensor first = Tensor::full({1000000}, 1), second = Tensor::full({1000000}, 2);
  const WorkPtr waiting = halves.round_robin->all_reduce(first), running = halves.round_robin->all_reduce(second);
  halves.others[1]->all_reduce(Tensor::full({1000000}, 3))->wait();
  running->wait();
  EXPECT_EQ(second.to_vector<double>().back(), 5);
  EXPECT_FALSE(waiting->is_done());
  halves.others[0]->all_reduce(Tensor::full({1000000}, 3))->wait();
  waiting->wait();
  EXPECT_EQ(first.to_vector<double>().back(), 4);
}

TEST(RoundRobinTurns, SendsKeepToTheFirstGroupAndTakeNoTurn) {
  Halves halves(2);
  halves.others[0]->send(Tensor::full({3}, 7), 0);
  Tensor received = Tensor::zeros({3});
  halves.round_robin->recv(received, 1)->wait();
  EXPECT_EQ(received.to_vector<double>().front(), 7);
  const WorkPtr first = halves.round_robin->barrier();
  halves.others[0]->barrier()->wait();
  first->wait();
}

TEST(RoundRobinFailure, AFailureOfOneGroupEndsTheOthers) {
  Halves halves(3);
  std::vector<WorkPtr> works;
  works.reserve(3);
  for (int i = 0; i < 3; ++i) works.push_back(halves.round_robin->all_reduce(Tensor::zeros({10})));
  halves.others[1].reset();  // only this one
  const std::string lost = "all_reduce 0 of gradients (group 2 of 3): lost the connection to rank 1: it left the group";
  TANDEM_EXPECT_ERROR(works[1]->wait(), lost);
  // Who is aborted second may name who was first in between.
  for (const auto& [work, own] : {std::pair{works[0], "(group 1 of 3): "}, {works[2], "(group 3 of 3): "}}) {
    const std::string message = tandem::testing::error_of([&, &work = work] { work->wait(); });
    tandem::testing::expect_contains(message, std::string("all_reduce 0 of gradients ") + own);
    tandem::testing::expect_contains(message, lost);
  }
  TANDEM_EXPECT_ERROR(halves.round_robin->barrier()->wait(), lost);
  EXPECT_THROW(halves.others[0]->barrier()->wait(), PeerError);
}

TEST(RoundRobinFailure, AbortEndsAll) {
  Halves halves(2);
  const WorkPtr first = halves.round_robin->barrier(), second = halves.round_robin->barrier();
  std::thread aborter([&] { halves.round_robin->abort("rank 5 ran out of memory"); });
  TANDEM_EXPECT_ERROR(first->wait(), "rank 5 ran out of memory");
  TANDEM_EXPECT_ERROR(second->wait(), "rank 5 ran out of memory");
  aborter.join();
  TANDEM_EXPECT_ERROR(halves.round_robin->barrier()->wait(), "rank 5 ran out of memory");
}

TEST(RoundRobinFailure, DestructionEndsWhatIsPending) {
  Halves halves(3);
  const WorkPtr first = halves.round_robin->barrier(), second = halves.round_robin->barrier();
  halves.round_robin.reset();
  TANDEM_EXPECT_ERROR(first->wait(), "the group was destroyed on this rank");
  TANDEM_EXPECT_ERROR(second->wait(), "the group was destroyed on this rank");
}

TEST(RoundRobinTurns, DuplicatesTakeTurnsOfTheirOwn) {
  Halves halves(2);
  const GroupPtr second = halves.round_robin->duplicate("loss");
  EXPECT_EQ(second->name(), "loss");
  const GroupPtr other = halves.network.join("loss (group 1 of 2)", 1);
  const WorkPtr waiting = halves.round_robin->barrier(), done = second->barrier();
  other->barrier()->wait();
  done->wait();
  EXPECT_FALSE(waiting->is_done());
}

TEST(RoundRobinFailure, RefusesGroupsThatDoNotFit) {
  TANDEM_EXPECT_ERROR(make_round_robin_group("a", {}), "group a: needs at least 1 group to take turns, got 0");
  ThreadNetwork two(2), three(3);
  TANDEM_EXPECT_ERROR(make_round_robin_group("a", {two.join("b", 1), nullptr}), "group a: group 2 of 2 is null");
  TANDEM_EXPECT_ERROR(make_round_robin_group("a", {two.join("c", 1), three.join("d", 1)}),
                      "groups must be of the same ranks: c is rank 1 of 2, d is rank 1 of 3");
}

}  // namespace
