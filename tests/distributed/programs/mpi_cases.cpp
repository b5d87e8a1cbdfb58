// One rank under mpirun: the cases that all kinds of groups run, on an MpiGroup. Arguments are GoogleTest's. The cases
// called Failure end the run's MPI and must each be run alone.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tandem/core/tensor.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/mpi/mpi_runner.h"
#include "tandem/distributed/groups/mpi_group.h"
#include "tandem/distributed/groups/queued_group.h"
#include "tests/distributed/group_cases.h"
#include "tests/errors.h"

namespace {

using namespace std::chrono_literals;
using tandem::core::DType;
using tandem::core::Tensor;
using tandem::distributed::GroupOptions;
using tandem::distributed::MpiProcess;
using tandem::distributed::MpiRunner;
using tandem::distributed::PeerError;
using tandem::distributed::ProcessGroup;
using tandem::distributed::QueuedGroup;
using tandem::distributed::ReduceOp;
using tandem::distributed::TimeoutError;
using tandem::distributed::WorkPtr;
using tandem::testing::error_of;
using tandem::testing::expect_contains;

using GroupPtr = std::shared_ptr<ProcessGroup>;

GroupOptions options() { return {.timeout = 60s, .watch = nullptr}; }

int size() { return MpiProcess::get().size(); }
int rank() { return MpiProcess::get().rank(); }

GroupPtr mpi_group(const std::string& name, const GroupOptions& given) {
  return tandem::distributed::make_mpi_group(name, {.rank = rank(), .size = size()}, given);
}

GroupPtr member_of_group(int wanted, int /*size*/) {
  return wanted == rank() ? mpi_group("gradients", options()) : nullptr;
}

// A runner whose calls take three elements at most.
GroupPtr group_in_pieces(int wanted, int /*size*/) {
  if (wanted != rank()) return nullptr;
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  auto runner = std::make_unique<MpiRunner>(MpiProcess::get(), communicator, 3);
  return std::make_shared<QueuedGroup>("pieces", wanted, size(), options(), std::move(runner), nullptr);
}

TEST(MpiGroup, ReducesAllDtypesWithAllOperations) {
  tandem::testing::check_all_reduce(size(), member_of_group, {0, 1, 5, 1009, 70001});
}
TEST(MpiGroup, MeansAreRight) { tandem::testing::check_scaled_mean(size(), member_of_group, {1, 1009, 700001}); }
TEST(MpiGroup, BroadcastsGathersAndScatters) {
  tandem::testing::check_others(size(), member_of_group, {0, 1, 1009, 200003});
}
TEST(MpiGroup, SendsAndReceives) { tandem::testing::check_send_recv(size(), member_of_group); }
TEST(MpiGroup, RunsInTheOrderOfIssue) { tandem::testing::check_queue(size(), member_of_group); }

TEST(MpiGroup, LongTensorsGoInPieces) {
  tandem::testing::check_all_reduce(size(), group_in_pieces, {2, 3, 4, 31});
  tandem::testing::check_others(size(), group_in_pieces, {1, 3, 4, 32});
  if (size() == 1) return;
  const GroupPtr group = group_in_pieces(rank(), size());
  Tensor token = Tensor::full({10}, rank());
  if (rank() == 0) group->send(token, 1)->wait();
  if (rank() == 1) group->recv(token, 0)->wait();
  if (rank() < 2) {
    EXPECT_EQ(token.to_vector<double>(), std::vector<double>(10, 0));
  }
}

// Also of NaNs, zeros of both signs, and sums that round.
TEST(MpiGroup, AllRanksGetTheSameBits) {
  const GroupPtr group = mpi_group("bits", options());
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      for (const std::int64_t numel : {7, 5000, 300000}) {
        std::vector<double> values(static_cast<std::size_t>(numel));
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = std::sin(static_cast<double>(i) + 100.0 * rank());
          if (i % 7 == 3) values[i] = (static_cast<int>(i) + rank()) % 2 == 0 ? 0.0 : -0.0;
          if (i % 1000 == 5 && rank() == size() - 1) values[i] = std::numeric_limits<double>::quiet_NaN();
        }
        Tensor tensor = Tensor::from(values).to(dtype);
        group->all_reduce(tensor, {.op = op, .scale = 1.0 / size()})->wait();
        Tensor all = Tensor::empty({size(), numel}, {.dtype = dtype});
        group->all_gather(tensor, all)->wait();
        for (int other = 0; other < size(); ++other)
          ASSERT_EQ(std::memcmp(all.select(0, other).raw_data(), tensor.raw_data(), tensor.bytes()), 0) << other;
        if (numel > 5) {
          EXPECT_TRUE(std::isnan(tensor.to_vector<double>()[5]));
        }
      }
    }
  }
}

TEST(MpiGroup, TwoGroupsDoNotWaitForEachOther) {
  if (size() == 1) return;
  const GroupPtr group = mpi_group("first", options()), second = group->duplicate("second");
  EXPECT_EQ(second->name(), "second");
  WorkPtr waiting;
  if (rank() == 0) waiting = group->all_reduce(Tensor::zeros({100000}));
  second->barrier()->wait();
  if (rank() == 0) {
    EXPECT_FALSE(waiting->is_done());
  }
  second->barrier()->wait();
  if (rank() != 0) waiting = group->all_reduce(Tensor::zeros({100000}));
  waiting->wait();
  EXPECT_EQ(waiting->bytes_sent(), 400000);
}

TEST(MpiGroup, OneThatIsDestroyedIdleDoesNoHarm) {
  mpi_group("short", options())->barrier()->wait();
  mpi_group("next", options())->barrier()->wait();
}

// Nothing is sent, so that all ranks say the same.
TEST(MpiGroup, AnotherRunThanTheRanksIsAnErrorOnAllRanks) {
  const auto make = [](int member, int members) {
    return tandem::distributed::make_mpi_group("g", {.rank = member, .size = members}, options());
  };
  TANDEM_EXPECT_ERROR(make(rank(), size() + 1),
                      "group g: MPI started " + std::to_string(size()) + (size() == 1 ? " process" : " processes") +
                          ", the run has " + std::to_string(size() + 1) +
                          ": start the ranks with mpirun or srun (mpirun -n " + std::to_string(size() + 1) + " train");
  if (size() == 1) return;
  const int next = (rank() + 1) % size();
  TANDEM_EXPECT_ERROR(make(next, size()), "group g: rank " + std::to_string(next) + " of the run is rank " +
                                              std::to_string(rank()) + " for MPI: leave the ranks' numbers to mpirun");
}

TEST(Failure, WhoIsAbsentIsNamedAtTheDeadline) {
  const GroupPtr group = mpi_group("gradients", {.timeout = 500ms, .watch = nullptr});
  if (rank() == 0) {
    const WorkPtr work = group->all_reduce(Tensor::zeros({5}), {.label = "bucket 3"});
    EXPECT_THROW(
        try { work->wait(); } catch (const TimeoutError& error) {
          EXPECT_STREQ(error.what(), "all_reduce 0 of gradients, bucket 3: not done after 0.5 s, waiting for rank 1");
          throw;
        },
        TimeoutError);
    TANDEM_EXPECT_ERROR(group->barrier()->wait(), "not done after 0.5 s");
  } else {
    std::this_thread::sleep_for(3s);
  }
}

TEST(Failure, DifferencesAreErrorsOnAllRanks) {
  const GroupPtr group = mpi_group("gradients", options());
  const WorkPtr work = group->all_reduce(Tensor::zeros({rank() == 1 ? 7 : 5}));
  const std::string message = error_of([&] { work->wait(); });
  expect_contains(message, "all_reduce 0 of gradients: ranks differ: rank ");
  expect_contains(message, "all_reduce 0 (sum, float32, 20 bytes)");
  expect_contains(message, "all_reduce 0 (sum, float32, 28 bytes)");
}

TEST(Failure, AbortWakesAWait) {
  const GroupPtr group = mpi_group("gradients", options());
  if (rank() != 0) return;
  const WorkPtr work = group->all_reduce(Tensor::zeros({5}));
  std::thread aborter([&] { group->abort("rank 5 ran out of memory"); });
  TANDEM_EXPECT_ERROR(work->wait(), "all_reduce 0 of gradients: rank 5 ran out of memory");
  aborter.join();
  TANDEM_EXPECT_ERROR(group->barrier()->wait(), "rank 5 ran out of memory");
}

TEST(Failure, DestructionEndsWhatIsPending) {
  GroupPtr group = mpi_group("gradients", options());
  if (rank() != 0) return;
  const WorkPtr work = group->all_reduce(Tensor::zeros({5})), queued = group->barrier();
  group.reset();
  TANDEM_EXPECT_ERROR(work->wait(), "the group was destroyed on this rank");
  TANDEM_EXPECT_ERROR(queued->wait(), "the group was destroyed on this rank");
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  std::printf("rank %d: %s\n", rank(), code == 0 ? "all is well" : "tests failed");
  return code;
}
