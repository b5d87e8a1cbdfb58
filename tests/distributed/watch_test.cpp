// Ranks that notice each other's failures: each Watch here is one rank's, all in one process.
#include "tandem/distributed/watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tandem/distributed/beat.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/fields.h"
#include "tandem/distributed/stores/memory_store.h"
#include "tests/distributed/eventually.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

using testing::eventually;
using testing::expect_contains;
using testing::run_threads;

// Fast enough for a test, and slow enough for a machine that is busy.
WatchOptions quick() {
  WatchOptions options;
  options.beat = Milliseconds(20);
  options.stale = Milliseconds(800);
  return options;
}

constexpr Milliseconds kLong{30000};

/// A store whose calls can be held up, or fail, for one rank: as a process that is stopped, or a server that ended.
class GatedStore final : public Store {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool is_open = true;
    std::string error;
    bool is_timeout = false;

    void set(bool open) {
      const std::lock_guard lock(mutex);
      is_open = open;
      opened.notify_all();
    }
    void fail(const std::string& with, bool by_timeout = false) {
      const std::lock_guard lock(mutex);
      error = with;
      is_timeout = by_timeout;
    }
    void pass() {
      std::unique_lock lock(mutex);
      opened.wait(lock, [this] { return is_open; });
      if (is_timeout) throw TimeoutError(error);
      if (!error.empty()) throw PeerError(error);
    }
  };

  GatedStore(std::shared_ptr<Store> store, std::shared_ptr<Gate> gate)
      : store_(std::move(store)), gate_(std::move(gate)) {}

  void set(const std::string& key, const std::string& value) override { (gate_->pass(), store_->set(key, value)); }
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override {
    return gate_->pass(), store_->get(key, timeout);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return gate_->pass(), store_->add(key, amount);
  }
  std::optional<std::string> compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                                             const std::string& desired) override {
    return gate_->pass(), store_->compare_and_set(key, expected, desired);
  }
  bool remove(const std::string& key) override { return gate_->pass(), store_->remove(key); }
  std::shared_ptr<Store> connect_again() override {
    return std::make_shared<GatedStore>(store_->connect_again(), gate_);
  }
  std::string str() const override { return "tcp://h:1"; }

 private:
  std::shared_ptr<Store> store_;
  std::shared_ptr<Gate> gate_;
};

std::string failure_text(const Watch& watch) { return watch.failure() ? watch.failure()->cause : ""; }

TEST(Fields, ReadWhatWasWritten) {
  const std::vector<std::string> fields{"", "a:b", std::string("\0\n", 2), "3:abc"};
  EXPECT_EQ(split_fields(join_fields(fields)), fields);
  EXPECT_EQ(split_fields(""), std::vector<std::string>());
  for (const char* text : {"x", "1", "1:", "2:a", "-1:a", ":a", "99999999999999999999:a", "18446744073709551615:a",
                           "1:ab", "01x:a", " 1:a"}) {
    EXPECT_EQ(split_fields(text), std::nullopt) << text;
  }
}

TEST(Failure, ReadsWhatWasWrittenAndSurvivesTheRest) {
  const Failure failure{2, 0, "rank 2 was killed by signal 9 (Killed)"};
  EXPECT_EQ(Failure::decode(failure.encode()), failure);
  EXPECT_EQ(Failure::decode(Failure{}.encode()), Failure{});
  EXPECT_EQ(Failure::decode(Failure{1, 1, "two\nlines\x1b[31m"}.encode()).cause, "two lines [31m");
  const Failure endless = Failure::decode(Failure{1, 1, std::string(100000, 'x')}.encode());
  EXPECT_LT(endless.cause.size(), 5000U);
  EXPECT_EQ(Failure::decode(endless.encode()).cause.size(), endless.cause.size());
  for (const std::string& text :
       {std::string(), std::string("x"), join_fields({"1", "2"}), join_fields({"a", "2", "c"}),
        join_fields({"-2", "2", "c"}), join_fields({"99999999999", "2", "c"}), std::string(10000, '\xff')}) {
    EXPECT_EQ(Failure::decode(text).rank, -1);
    expect_contains(Failure::decode(text).cause, "cannot be read");
  }
}

TEST(Beat, ReadsWhatWasWrittenAndSurvivesTheRest) {
  const Beat beat{7, 12, {{"gradients", 3, "all_reduce of bucket 0"}, {"metrics", 9, "barrier"}}};
  const auto read = Beat::decode(beat.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->count, 7);
  EXPECT_EQ(read->find("metrics")->sequence, 9);
  EXPECT_EQ(read->find("none"), nullptr);
  EXPECT_EQ(read->describe(), "last: all_reduce of bucket 0, step 12");
  EXPECT_EQ(Beat{}.describe(), "last: no collective yet");
  EXPECT_EQ(Beat::decode(join_fields({"1", "x"})), std::nullopt);
  EXPECT_EQ(Beat::decode(join_fields({"1", "2", "group"})), std::nullopt);
  EXPECT_EQ(Beat::decode(join_fields({"1", "2", "group", "x", "barrier"})), std::nullopt);
  EXPECT_EQ(Beat::decode("nonsense"), std::nullopt);
}

TEST(Watch, AReportReachesEverybodyAndTheFirstOneStays) {
  const auto store = std::make_shared<MemoryStore>();
  Watch zero(store, 0, 3, quick()), one(store, 1, 3, quick()), two(store, 2, 3, quick());
  EXPECT_FALSE(zero.failure());
  const Failure first{2, 1, "rank 2: connection lost in all_reduce of bucket 3"};
  EXPECT_EQ(one.report(first), first);
  EXPECT_EQ(zero.report({1, 0, "rank 1: connection reset"}), first);
  EXPECT_EQ(one.failure(), first);
  EXPECT_TRUE(eventually([&] { return two.failure() == first; }));
}

TEST(Watch, TheLauncherReportsInTheStore) {
  const auto store = std::make_shared<MemoryStore>();
  Watch zero(store, 0, 2, quick()), one(store, 1, 2, quick());
  const Failure killed{1, -1, "rank 1 was killed by signal 9 (Killed)"};
  EXPECT_EQ(report_failure(*store, killed), killed);
  EXPECT_EQ(report_failure(*store, {0, -1, "rank 0 ended with exit code 1"}), killed);
  EXPECT_TRUE(eventually([&] { return zero.failure() == killed && one.failure() == killed; }));
}

TEST(Watch, CallsBackOnceBeforeReportReturns) {
  const auto store = std::make_shared<MemoryStore>();
  Watch zero(store, 0, 2, quick()), one(store, 1, 2, quick());
  std::atomic<int> own = 0, others = 0, removed = 0, throwing = 0;
  const auto a = zero.on_failure([&](const Failure& failure) { own += failure.rank == 1; });
  const auto b = one.on_failure([&](const Failure&) { ++others; });
  auto c = zero.on_failure([&](const Failure&) { ++removed; });
  const auto d = zero.on_failure([&](const Failure&) {
    ++throwing;
    throw std::runtime_error("nobody hears this");
  });
  c.reset();
  zero.report({1, 0, "rank 1: connection lost"});
  EXPECT_EQ(own, 1);
  EXPECT_EQ(removed, 0);
  EXPECT_EQ(throwing, 1);
  zero.report({1, 0, "rank 1: connection lost again"});
  EXPECT_EQ(own, 1);
  EXPECT_TRUE(eventually([&] { return others == 1; }));

  int late = 0;
  const auto e = zero.on_failure([&](const Failure&) { ++late; });
  EXPECT_EQ(late, 1) << "at once where there is a failure";
}

TEST(Watch, RemovingACallbackWaitsForItsEnd) {
  const auto store = std::make_shared<MemoryStore>();
  Watch watch(store, 0, 2, quick());
  std::atomic<bool> began = false, ended = false;
  auto handle = watch.on_failure([&](const Failure&) {
    began = true;
    std::this_thread::sleep_for(Milliseconds(100));
    ended = true;
  });
  std::thread reporter([&] { watch.report({1, 0, "rank 1: connection lost"}); });
  EXPECT_TRUE(eventually([&] { return began.load(); }));
  handle.reset();
  EXPECT_TRUE(ended);
  reporter.join();
}

TEST(Watch, ACallbackMayRemoveItselfAndReport) {
  const auto store = std::make_shared<MemoryStore>();
  Watch watch(store, 0, 2, quick());
  std::shared_ptr<void> handle;
  Failure inner;
  handle = watch.on_failure([&](const Failure&) {
    handle.reset();
    inner = watch.report({0, 0, "rank 0: an echo"});
  });
  const Failure first{1, 0, "rank 1: connection lost"};
  EXPECT_EQ(watch.report(first), first);
  EXPECT_EQ(inner, first);
}

TEST(Watch, ASilentNeighbourIsNamedWithWhatItDidLast) {
  const auto store = std::make_shared<MemoryStore>();
  store->set(beat_key(1), Beat{7, 12, {{"gradients", 3, "all_reduce of bucket 0"}}}.encode());
  Watch zero(store, 0, 3, quick()), two(store, 2, 3, quick());
  EXPECT_TRUE(eventually([&] { return zero.failure() && two.failure(); }));
  EXPECT_EQ(zero.failure()->rank, 1);
  EXPECT_EQ(zero.failure()->reporter, 0);
  EXPECT_EQ(failure_text(zero),
            "rank 1 does not respond: no heartbeat for 0.8 s (last: all_reduce of bucket 0, step 12)");
  EXPECT_EQ(two.failure(), zero.failure());
}

TEST(Watch, WhoseWatchEndsWithoutGoodbyeIsReported) {
  const auto store = std::make_shared<MemoryStore>();
  Watch zero(store, 0, 3, quick()), one(store, 1, 3, quick());
  { Watch two(store, 2, 3, quick()); }
  EXPECT_TRUE(eventually([&] { return zero.failure() && one.failure(); }));
  expect_contains(failure_text(zero), "rank 2 does not respond");
}

TEST(Watch, PassesByWhoHasLeftAndWhoHasNotCome) {
  const auto store = std::make_shared<MemoryStore>();
  store->set(beat_key(1), Beat{}.encode());
  store->set(goodbye_key(1), "");
  store->set(beat_key(3), Beat{}.encode());  // silent; rank 2 has not come yet
  Watch zero(store, 0, 4, quick());
  EXPECT_TRUE(eventually([&] { return zero.failure().has_value(); }));
  EXPECT_EQ(zero.failure()->rank, 3);
}

TEST(Watch, WhoHasNotComeOrHasLeftIsNotAccused) {
  const auto store = std::make_shared<MemoryStore>();
  store->set(beat_key(1), Beat{}.encode());
  store->set(goodbye_key(1), "");
  Watch zero(store, 0, 3, quick());
  std::this_thread::sleep_for(2 * quick().stale);
  EXPECT_EQ(failure_text(zero), "");
}

// As when a whole machine, or the store, stops for a while: the first to wake up sees everybody silent.
TEST(Watch, WhoWasItselfStoppedAccusesNobody) {
  const auto store = std::make_shared<MemoryStore>();
  const auto gate = std::make_shared<GatedStore::Gate>(), neighbours_gate = std::make_shared<GatedStore::Gate>();
  Watch zero(std::make_shared<GatedStore>(store, gate), 0, 2, quick());
  Watch one(std::make_shared<GatedStore>(store, neighbours_gate), 1, 2, quick());
  std::this_thread::sleep_for(5 * quick().beat);
  neighbours_gate->set(false);
  gate->set(false);
  std::this_thread::sleep_for(2 * quick().stale);
  gate->set(true);
  std::this_thread::sleep_for(quick().stale / 4);
  neighbours_gate->set(true);
  std::this_thread::sleep_for(quick().stale / 4);
  EXPECT_EQ(failure_text(zero), "");
  EXPECT_EQ(failure_text(one), "");
}

TEST(Watch, AStoreThatEndsIsAFailure) {
  const auto gate = std::make_shared<GatedStore::Gate>();
  const auto store = std::make_shared<GatedStore>(std::make_shared<MemoryStore>(), gate);
  WatchOptions options = quick();
  Watch unknown(store, 0, 3, options);
  options.store_server = "launch";
  Watch launched(store, 1, 3, options);
  options.store_server = "rank 0";
  Watch by_hand(store, 2, 3, options);
  std::atomic<int> called = 0;
  const auto handle = by_hand.on_failure([&](const Failure&) { ++called; });
  gate->fail("the store at tcp://h:1 is gone: connection closed");
  EXPECT_TRUE(eventually([&] { return unknown.failure() && launched.failure() && called == 1; }));
  EXPECT_EQ(failure_text(unknown),
            "the store at tcp://h:1 is gone: whoever served it (launch, or rank 0) has ended (connection closed)");
  expect_contains(failure_text(launched), "launch, which served it, has ended");
  expect_contains(failure_text(by_hand), "rank 0, which served it, has ended");
  EXPECT_EQ(by_hand.failure()->rank, 0);
  EXPECT_EQ(launched.failure()->rank, -1);
}

TEST(Watch, AStoreThatIsStoppedIsAFailure) {
  const auto gate = std::make_shared<GatedStore::Gate>();
  const auto store = std::make_shared<GatedStore>(std::make_shared<MemoryStore>(), gate);
  WatchOptions options = quick();
  options.store_server = "rank 0";
  Watch watch(store, 1, 3, options);
  gate->fail("5 s passed", true);
  EXPECT_TRUE(eventually([&] { return watch.failure().has_value(); }));
  EXPECT_EQ(failure_text(watch),
            "the store at tcp://h:1 does not answer: rank 0, which serves it, is stopped or cannot be reached");
}

TEST(Watch, WhatIsLostTogetherWithTheStoreIsItsEcho) {
  const auto gate = std::make_shared<GatedStore::Gate>();
  const auto store = std::make_shared<GatedStore>(std::make_shared<MemoryStore>(), gate);
  WatchOptions slow;  // does not look before report() is called
  slow.beat = slow.stale = kLong;
  Watch zero(store, 0, 3, slow), one(store, 1, 3, slow);
  gate->fail("connection closed");
  expect_contains(zero.report({2, 0, "rank 2: connection lost"}).cause, "the store at tcp://h:1 is gone");
  const Failure own{1, 1, "rank 1: out of memory"};
  EXPECT_EQ(one.report(own), own);
}

TEST(Watch, TellsWhoIsMissing) {
  const auto store = std::make_shared<MemoryStore>();
  const auto options = quick();
  Watch zero(store, 0, 4, options), one(store, 1, 4, options), two(store, 2, 4, options), three(store, 3, 4, options);
  zero.note("gradients", 17, "all_reduce of bucket 3");
  one.note("gradients", 18, "all_reduce of bucket 4");
  two.note("gradients", 16, "all_reduce of bucket 2");
  two.note_step(12);
  three.note("gradients", 17, "all_reduce of bucket 3");
  three.note("metrics", 1, "barrier");
  EXPECT_EQ(zero.describe_missing("gradients", 17), "rank 2 never began it (last: all_reduce of bucket 2, step 12)");
  two.note("gradients", 17, "all_reduce of bucket 3");
  EXPECT_EQ(zero.describe_missing("gradients", 17), "") << "news that comes with the next beat counts";
  EXPECT_EQ(zero.describe_missing("other", 0),
            "rank 1 never began it (last: all_reduce of bucket 4); "
            "rank 2 never began it (last: all_reduce of bucket 3, step 12); rank 3 never began it (last: barrier)");
}

TEST(Watch, NamesAtMostFiveOfTheMissing) {
  const auto store = std::make_shared<MemoryStore>();
  store->set(beat_key(1), Beat{}.encode());
  store->set(goodbye_key(1), "");
  Watch zero(store, 0, 9, quick());
  EXPECT_EQ(zero.describe_missing("gradients", 0),
            "rank 1 has left (last: no collective yet); rank 2 never came; rank 3 never came; rank 4 never came; "
            "rank 5 never came; and 3 ranks more");
}

TEST(Watch, AllLeaveTogether) {
  const auto store = std::make_shared<MemoryStore>();
  std::atomic<int> came = 0;
  const auto errors = run_threads(4, [&](int rank) {
    Watch watch(store, rank, 4, quick());
    if (rank == 2) std::this_thread::sleep_for(quick().stale * 3 / 2);  // leaving takes no stale neighbour for dead
    ++came;
    watch.leave(kLong);
    EXPECT_EQ(came, 4) << "rank " << rank << " left early";
    EXPECT_EQ(failure_text(watch), "");
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Watch, LeavingEndsWithAFailure) {
  const auto store = std::make_shared<MemoryStore>();
  Watch zero(store, 0, 2, quick()), one(store, 1, 2, quick());
  std::thread reporter([&] {
    std::this_thread::sleep_for(Milliseconds(50));
    one.report({1, 1, "rank 1: out of memory"});
  });
  TANDEM_EXPECT_ERROR(zero.leave(kLong), "rank 1: out of memory");
  reporter.join();
  TANDEM_EXPECT_ERROR(one.leave(kLong), "rank 1: out of memory");
}

TEST(Watch, LeavingNamesWhoDoesNotCome) {
  const auto store = std::make_shared<MemoryStore>();
  Watch zero(store, 0, 3, quick()), one(store, 1, 3, quick()), two(store, 2, 3, quick());
  for (Watch* watch : {&zero, &two}) watch->note("gradients", 0, "all_reduce of bucket 0");
  store->set(goodbye_key(1), "");
  TANDEM_EXPECT_ERROR(zero.leave(Milliseconds(300)),
                      "rank 2 did not come to the end within 0.3 s (last: all_reduce of bucket 0)");
}

TEST(Watch, LeavingWhileAnotherWaitsInACollectiveIsThisRanksFailure) {
  const auto store = std::make_shared<MemoryStore>();
  Watch zero(store, 0, 2, quick()), one(store, 1, 2, quick());
  for (Watch* watch : {&zero, &one}) watch->note("gradients", 0, "all_reduce 0 of gradients");
  one.note("gradients", 1, "send to rank 1 of gradients");  // not this rank's business
  std::thread straggler([&] {
    std::this_thread::sleep_for(Milliseconds(200));
    one.note("gradients", 1, "all_reduce 1 of gradients");
  });
  const std::string cause = "rank 0 left before the end: rank 1 waits for it in all_reduce 1 of gradients";
  TANDEM_EXPECT_ERROR(zero.leave(kLong), cause);
  straggler.join();
  EXPECT_TRUE(eventually([&] { return one.failure().has_value(); }));
  EXPECT_EQ(one.failure()->cause, cause);
}

// The others close their connections as soon as all have said goodbye; who is slower must not call that a failure.
TEST(Watch, ConnectionsLostAfterGoodbyeAreNoFailure) {
  const auto store = std::make_shared<MemoryStore>();
  Watch zero(store, 0, 2, quick()), one(store, 1, 2, quick());
  std::thread leaver([&] { zero.leave(kLong); });
  EXPECT_TRUE(eventually([&] { return store->get(goodbye_key(0), Milliseconds(0)).has_value(); }));
  zero.report({1, 0, "rank 1: connection lost"});
  one.leave(kLong);
  leaver.join();
  EXPECT_FALSE(store->get(kFailureKey, Milliseconds(0)));
}

TEST(Watch, OneRankAloneNeedsNobody) {
  Watch watch(nullptr, 0, 1);
  watch.note("gradients", 0, "all_reduce");
  EXPECT_EQ(watch.describe_missing("gradients", 1), "");
  watch.leave(Milliseconds(0));
  const Failure failure{0, 0, "rank 0: out of memory"};
  EXPECT_EQ(watch.report(failure), failure);
  EXPECT_EQ(watch.failure(), failure);
}

}  // namespace
}  // namespace tandem::distributed
