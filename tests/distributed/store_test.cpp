// What every kind of store promises, by one suite that runs over all of them.
#include "tandem/distributed/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tandem/distributed/stores/file_store.h"
#include "tandem/distributed/stores/memory_store.h"
#include "tandem/distributed/stores/prefix_store.h"
#include "tandem/distributed/stores/tcp_store.h"
#include "tandem/distributed/stores/tcp_store_server.h"
#include "tests/data/temporary_folder.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

using data::TemporaryFolder;

constexpr Milliseconds kNow(0), kLong(60000);

struct Kind {
  const char* name;
  std::shared_ptr<Store> (*make)();  ///< an empty one
};

std::ostream& operator<<(std::ostream& stream, const Kind& kind) { return stream << kind.name; }

struct ServedStore {
  TcpStoreServer server{"127.0.0.1", 0};
  TcpStore store{"127.0.0.1", server.port(), kLong};
};

struct StoreInFolder {
  TemporaryFolder folder;
  FileStore store{folder / "store"};
};

// The store, with all that it needs.
template <class Owner>
std::shared_ptr<Store> make() {
  const auto owner = std::make_shared<Owner>();
  return {owner, &owner->store};
}

constexpr Kind kKinds[] = {
    {"memory", []() -> std::shared_ptr<Store> { return std::make_shared<MemoryStore>(); }},
    {"prefix",
     []() -> std::shared_ptr<Store> {
       return std::make_shared<PrefixStore>("group", std::make_shared<MemoryStore>());
     }},
    {"tcp", make<ServedStore>},
    {"file", make<StoreInFolder>},
};

class EveryStore : public ::testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<Store> store_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Kinds, EveryStore, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(EveryStore, SetsGetsAndRemoves) {
  EXPECT_EQ(store_->get("a", kNow), std::nullopt);
  store_->set("a", "1");
  store_->set("b", "2");
  EXPECT_EQ(store_->get("a", kNow), "1");
  store_->set("a", "3");
  EXPECT_EQ(store_->get("a", kLong), "3");
  EXPECT_TRUE(store_->remove("a"));
  EXPECT_FALSE(store_->remove("a"));
  EXPECT_EQ(store_->get("a", kNow), std::nullopt);
  EXPECT_EQ(store_->get("b", kNow), "2");
}

TEST_P(EveryStore, TakesAnyBytes) {
  const std::string binary("\0\xff\n\r\0 ", 6);
  store_->set(binary, binary + "value");
  store_->set("empty", "");
  EXPECT_EQ(store_->get(binary, kNow), binary + "value");
  EXPECT_EQ(store_->get("empty", kNow), "");
  EXPECT_EQ(store_->get("", kNow), std::nullopt);
  EXPECT_EQ(store_->compare_and_set("empty", "", binary), binary);
  EXPECT_EQ(store_->connect_again()->get("empty", kNow), binary);
}

TEST_P(EveryStore, Adds) {
  EXPECT_EQ(store_->add("n", 5), 5);
  EXPECT_EQ(store_->add("n", -12), -7);
  EXPECT_EQ(store_->get("n", kNow), "-7");
  store_->set("n", "41");
  EXPECT_EQ(store_->add("n", 1), 42);
  EXPECT_EQ(store_->add("n", 0), 42);
}

TEST_P(EveryStore, AddsOnlyToNumbers) {
  for (const std::string text : {"", "x", "1x", " 1", "0x10", "99999999999999999999", "1.5"}) {
    store_->set("n", text);
    TANDEM_EXPECT_ERROR(store_->add("n", 1), "holds '" + text + "', not a decimal number");
    EXPECT_EQ(store_->get("n", kNow), text);
  }
  store_->set("n", std::to_string(INT64_MAX));
  TANDEM_EXPECT_ERROR(store_->add("n", 1), "does not fit into 64 bits");
  EXPECT_EQ(store_->add("n", -1), INT64_MAX - 1);
}

TEST_P(EveryStore, ComparesAndSets) {
  EXPECT_EQ(store_->compare_and_set("k", "old", "new"), std::nullopt);
  EXPECT_EQ(store_->compare_and_set("k", std::nullopt, "first"), "first");
  EXPECT_EQ(store_->compare_and_set("k", std::nullopt, "second"), "first");
  EXPECT_EQ(store_->compare_and_set("k", "other", "second"), "first");
  EXPECT_EQ(store_->compare_and_set("k", "first", "second"), "second");
  EXPECT_EQ(store_->get("k", kNow), "second");
}

TEST_P(EveryStore, HoldsWhatIsAllowedAndNoMore) {
  const std::string key(Store::kMaxKey - 6, 'k'), value(Store::kMaxValue, 'v');  // "group/" belongs to the key
  store_->set(key, value);
  EXPECT_EQ(store_->get(key, kNow), value);
  EXPECT_EQ(store_->compare_and_set(key, value, value), value);
  const std::string long_key(Store::kMaxKey + 1, 'k'), long_value(Store::kMaxValue + 1, 'v');
  TANDEM_EXPECT_ERROR(store_->set(long_key, ""), "more than 1024");
  TANDEM_EXPECT_ERROR(store_->get(long_key, kNow), "more than 1024");
  TANDEM_EXPECT_ERROR(store_->add(long_key, 1), "more than 1024");
  TANDEM_EXPECT_ERROR(store_->remove(long_key), "more than 1024");
  TANDEM_EXPECT_ERROR(store_->compare_and_set(long_key, std::nullopt, ""), "more than 1024");
  TANDEM_EXPECT_ERROR(store_->set("k", long_value), "k' has 1048577 bytes, more than 1048576");
  TANDEM_EXPECT_ERROR(store_->compare_and_set("k", std::nullopt, long_value), "more than 1048576");
  // More than any value can be: it never matches.
  EXPECT_EQ(store_->compare_and_set(key, long_value, ""), value);
  store_->set("after", "works");
  EXPECT_EQ(store_->get("after", kNow), "works");
}

TEST_P(EveryStore, AGetWaitsUntilTheKeyIsThere) {
  const auto other = store_->connect_again();
  const std::function<void()> makers[] = {[&] { other->set("k", "4"); }, [&] { other->add("k", 4); },
                                          [&] { other->compare_and_set("k", std::nullopt, "4"); }};
  for (const auto& maker : makers) {
    auto waiting = std::async(std::launch::async, [&] { return store_->get("k", kLong); });
    EXPECT_EQ(waiting.wait_for(Milliseconds(100)), std::future_status::timeout);
    other->set("not k", "");
    maker();
    EXPECT_EQ(waiting.get(), "4");
    EXPECT_TRUE(other->remove("k"));
  }
}

TEST_P(EveryStore, AGetGivesUp) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(store_->get("k", Milliseconds(150)), std::nullopt);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, Milliseconds(150));
  EXPECT_EQ(store_->get("k", Milliseconds(-5)), std::nullopt);
  store_->set("k", "v");
  EXPECT_EQ(store_->get("k", Milliseconds::max()), "v");
}

TEST_P(EveryStore, AWaitOnOneConnectionDoesNotBlockAnother) {
  const auto other = store_->connect_again();
  auto waiting = std::async(std::launch::async, [&] { return store_->get("end", kLong); });
  for (int i = 1; i <= 20; ++i) EXPECT_EQ(other->add("n", 1), i);
  EXPECT_EQ(waiting.wait_for(kNow), std::future_status::timeout);
  other->set("end", "now");
  EXPECT_EQ(waiting.get(), "now");
}

TEST_P(EveryStore, ManyThreadsAdd) {
  constexpr int kThreads = 8, kTimes = 50;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    // Half of them share a connection.
    threads.emplace_back([t, own = t % 2 == 0 ? store_ : store_->connect_again()] {
      for (int i = 0; i < kTimes; ++i) own->add("n", t + 1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(store_->get("n", kNow), std::to_string(kTimes * kThreads * (kThreads + 1) / 2));
}

TEST_P(EveryStore, ARaceHasOneWinner) {
  for (int round = 0; round < 5; ++round) {
    const std::string key = "winner" + std::to_string(round);
    std::vector<std::future<std::optional<std::string>>> racers;
    racers.reserve(8);
    for (int t = 0; t < 8; ++t) {
      racers.push_back(std::async(std::launch::async, [&, t, own = store_->connect_again()] {
        return own->compare_and_set(key, std::nullopt, std::to_string(t));
      }));
    }
    const auto winner = store_->get(key, kLong);
    for (auto& racer : racers) EXPECT_EQ(racer.get(), winner);
  }
}

TEST(PrefixStore, KeepsNamesApart) {
  const auto store = std::make_shared<MemoryStore>();
  PrefixStore a("a", store), b("b", store);
  PrefixStore nested("c", a.connect_again());
  a.set("k", "1");
  b.set("k", "2");
  nested.set("k", "3");
  EXPECT_EQ(store->get("a/k", kNow), "1");
  EXPECT_EQ(store->get("b/k", kNow), "2");
  EXPECT_EQ(store->get("a/c/k", kNow), "3");
  EXPECT_EQ(nested.str(), "memory");
}

}  // namespace
}  // namespace tandem::distributed
