// Ranks of a group over Gloo that die, stop or stay away, each with a watch, as in a run.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tandem/core/parallel.h"
#include "tandem/core/tensor.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/gloo_group.h"
#include "tandem/distributed/stores/memory_store.h"
#include "tandem/distributed/stores/tcp_store.h"
#include "tandem/distributed/stores/tcp_store_server.h"
#include "tests/errors.h"

namespace {

using namespace std::chrono_literals;
using tandem::core::Tensor;
using tandem::distributed::GlooEndpoint;
using tandem::distributed::GroupOptions;
using tandem::distributed::make_gloo_group;
using tandem::distributed::MemoryStore;
using tandem::distributed::PeerError;
using tandem::distributed::ProcessGroup;
using tandem::distributed::Store;
using tandem::distributed::TcpStore;
using tandem::distributed::TcpStoreServer;
using tandem::distributed::TimeoutError;
using tandem::distributed::Watch;
using tandem::testing::error_of;
using tandem::testing::expect_contains;

using Clock = std::chrono::steady_clock;

struct Rank {
  std::shared_ptr<Watch> watch;
  std::shared_ptr<ProcessGroup> group;
};

Rank join(const std::shared_ptr<Store>& store, int rank, int size, GroupOptions options = {}) {
  options.watch = std::make_shared<Watch>(store->connect_again(), rank, size);
  const GlooEndpoint endpoint = {.rank = rank, .size = size, .store = store->connect_again(), .address = "127.0.0.1"};
  return {options.watch, make_gloo_group("gradients", endpoint, options)};
}

std::vector<Rank> join_all(int size, const GroupOptions& options = {}) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { ranks[static_cast<std::size_t>(rank)] = join(store, rank, size, options); });
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

TEST(GlooGroupWithWatch, DeadlineSaysWhoNeverBeganIt) {
  const auto ranks = join_all(3, {.timeout = 3s, .watch = nullptr});
  const auto first = ranks[0].group->all_reduce(Tensor::zeros({100000}), {.label = "bucket 0"});
  const auto second = ranks[1].group->all_reduce(Tensor::zeros({100000}), {.label = "bucket 0"});
  const std::string messages = error_of([&] { first->wait(); }) + error_of([&] { second->wait(); });
  expect_contains(messages, "all_reduce 0 of gradients, bucket 0: ");
  expect_contains(messages, "rank 2 never began it");
  ASSERT_TRUE(ranks[2].watch->failure().has_value() || ranks[0].watch->failure().has_value());
}

TEST(GlooGroupWithWatch, FirstFailureEndsWaitsAndIsWhatAllSay) {
  const auto ranks = join_all(3);
  const auto first = ranks[0].group->all_reduce(Tensor::zeros({100000}));
  const auto second = ranks[1].group->barrier("end of epoch 3");
  ranks[2].watch->report({.rank = 2, .reporter = 2, .cause = "rank 2 ran out of memory"});
  TANDEM_EXPECT_ERROR(first->wait(), "rank 2 ran out of memory");
  TANDEM_EXPECT_ERROR(second->wait(), "barrier 0 of gradients, end of epoch 3: rank 2 ran out of memory");
}

TEST(GlooGroupWithWatch, FailureBeforeAllHaveComeEndsRendezvous) {
  const auto store = std::make_shared<MemoryStore>();
  std::thread reporter([&] {
    std::this_thread::sleep_for(200ms);
    tandem::distributed::report_failure(*store, {.rank = 1, .reporter = -1, .cause = "rank 1 was killed by signal 9"});
  });
  const auto begin = Clock::now();
  TANDEM_EXPECT_ERROR(join(store, 0, 2), "rank 1 was killed by signal 9");
  EXPECT_LT(Clock::now() - begin, 20s);  // the timeout is 300 s
  reporter.join();
}

/// A process that goes with this object.
struct Child {
  pid_t process = -1;
  ~Child() {
    if (process <= 0) return;
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
};

// The child runs one rank until it is told to misbehave by `ending`; the parent is rank 0. It is forked before the
// parent has any thread, since one that held a lock then would hold it for ever in the child, and hears of the port
// over a pipe.
template <class Ending>
std::string message_beside(Ending ending, Clock::duration* waited) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  Child child{fork()};
  if (child.process == 0) {
    std::uint16_t port = 0;
    if (read(ends[0], &port, sizeof port) != sizeof port) std::_Exit(1);
    tandem::core::set_num_threads(1);  // the parent's compute threads are not here
    const auto store = std::make_shared<TcpStore>("127.0.0.1", port, 20s);
    const Rank self = join(store, 1, 2, {.timeout = 40s, .watch = nullptr});
    self.group->all_reduce(Tensor::full({300000}, 1))->wait();
    ending();
    std::_Exit(0);
  }
  TcpStoreServer server("127.0.0.1", 0);
  const std::uint16_t port = server.port();
  EXPECT_EQ(write(ends[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  close(ends[0]);
  close(ends[1]);
  const auto store = std::make_shared<TcpStore>("127.0.0.1", port, 20s);
  const Rank self = join(store, 0, 2, {.timeout = 40s, .watch = nullptr});
  const Tensor tensor = Tensor::full({300000}, 2);
  self.group->all_reduce(tensor)->wait();
  EXPECT_EQ(tensor.to_vector<float>()[299999], 3);
  const auto begin = Clock::now();
  const std::string message = error_of([&] { self.group->all_reduce(tensor, {.label = "bucket 1"})->wait(); });
  *waited = Clock::now() - begin;
  return message;
}

TEST(GlooGroupProcesses, DeadPeerIsNamedAtOnce) {
  Clock::duration waited{};
  const std::string message = message_beside([] { raise(SIGKILL); }, &waited);
  expect_contains(message, "all_reduce 1 of gradients, bucket 1: ");
  expect_contains(message, "rank 1");
  EXPECT_LT(waited, 10s);
}

TEST(GlooGroupProcesses, StoppedPeerIsNamedByItsSilence) {
  Clock::duration waited{};
  const std::string message = message_beside([] { raise(SIGSTOP); }, &waited);
  expect_contains(message, "all_reduce 1 of gradients, bucket 1: ");
  expect_contains(message, "rank 1");
  EXPECT_LT(waited, 30s);  // five seconds of silence, and what sanitizers take; the timeout is 40 s
}

}  // namespace
