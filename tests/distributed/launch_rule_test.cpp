// When buckets may be launched: examples, and what holds for any plan and any order of gradients.
#include "tandem/distributed/launch_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/errors.h"

namespace tandem::distributed {
namespace {

using Indices = std::vector<std::size_t>;
using Members = std::vector<Indices>;

BucketPlan plan_of(const Members& members) {
  std::size_t count = 0;
  for (const Indices& items : members) count += items.size();
  return {std::vector<BucketItem>(count), members};
}

Indices listed(LaunchRule::Buckets buckets) {
  Indices all;
  for (const std::size_t bucket : buckets) all.push_back(bucket);
  return all;
}

TEST(LaunchRule, a_bucket_goes_once_it_and_all_before_it_are_complete) {
  LaunchRule rule(plan_of({{3, 2}, {1}, {0}}));
  for (int backward = 0; backward < 2; ++backward) {
    rule.begin();
    EXPECT_EQ(listed(rule.complete(3)), Indices{});
    EXPECT_FALSE(rule.is_complete(0));
    EXPECT_EQ(listed(rule.complete(1)), Indices{});  // bucket 1 waits for bucket 0
    EXPECT_TRUE(rule.is_complete(1));
    EXPECT_EQ(listed(rule.complete(2)), (Indices{0, 1}));
    EXPECT_EQ(rule.missing(), Indices{0});
    EXPECT_EQ(listed(rule.complete(0)), Indices{2});
    EXPECT_EQ(listed(rule.end()), Indices{});
    EXPECT_EQ(rule.missing(), Indices{});
  }
}

TEST(LaunchRule, without_overlap_nothing_goes_before_the_end) {
  LaunchRule rule(plan_of({{1}, {0}}), /*overlap=*/false);
  EXPECT_EQ(listed(rule.complete(1)), Indices{});
  EXPECT_EQ(listed(rule.complete(0)), Indices{});
  EXPECT_EQ(listed(rule.end()), (Indices{0, 1}));
  EXPECT_EQ(listed(rule.end()), Indices{});
}

TEST(LaunchRule, what_is_missing_is_what_the_first_bucket_still_waits_for) {
  LaunchRule rule(plan_of({{4, 2}, {3, 1, 0}}));
  EXPECT_EQ(rule.missing(), (Indices{4, 2}));
  rule.complete(4);
  rule.complete(1);
  EXPECT_EQ(rule.missing(), Indices{2});
  rule.complete(2);
  EXPECT_EQ(rule.missing(), (Indices{3, 0}));
  EXPECT_EQ(listed(rule.end()), Indices{});  // incomplete buckets are not launched
  rule.begin();
  EXPECT_EQ(rule.missing(), (Indices{4, 2}));
}

TEST(LaunchRule, an_item_is_complete_once) {
  LaunchRule rule(plan_of({{0, 1}}));
  rule.complete(1);
  TANDEM_EXPECT_ERROR(rule.complete(1), "item 1 was complete already");
  EXPECT_EQ(listed(rule.complete(0)), Indices{0});
}

/// Items 0, 1, ... in buckets of random sizes, shuffled.
Members random_members(std::mt19937& random) {
  Indices items(1 + random() % 40);
  std::iota(items.begin(), items.end(), std::size_t{0});
  std::shuffle(items.begin(), items.end(), random);
  Members members;
  for (std::size_t begin = 0; begin < items.size();) {
    const std::size_t end = std::min(items.size(), begin + 1 + random() % 6);
    members.emplace_back(items.begin() + static_cast<std::ptrdiff_t>(begin),
                         items.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  return members;
}

// The rule in words: as many buckets have been launched as lie before the first one that misses a gradient.
std::size_t launched_by_now(const Members& members, const std::vector<bool>& is_complete) {
  const auto first = std::find_if(members.begin(), members.end(), [&](const Indices& items) {
    return !std::all_of(items.begin(), items.end(), [&](std::size_t item) { return is_complete[item]; });
  });
  return static_cast<std::size_t>(first - members.begin());
}

TEST(LaunchRule, any_order_launches_each_bucket_once_in_index_order_not_early_and_not_late) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const Members members = random_members(random);
    const BucketPlan plan = plan_of(members);
    LaunchRule overlapping(plan), waiting(plan, false);
    Indices order(plan.item_count());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int backward = 0; backward < 2; ++backward) {
      std::shuffle(order.begin(), order.end(), random);
      const std::size_t came = random() % 3 == 0 ? random() % order.size() : order.size();  // some lack gradients
      overlapping.begin();
      waiting.begin();
      std::vector<bool> is_complete(order.size(), false);
      Indices launched;
      for (std::size_t i = 0; i < came; ++i) {
        is_complete[order[i]] = true;
        for (const std::size_t bucket : overlapping.complete(order[i])) launched.push_back(bucket);
        ASSERT_EQ(launched.size(), launched_by_now(members, is_complete));
        ASSERT_TRUE(waiting.complete(order[i]).empty());
      }
      ASSERT_TRUE(overlapping.end().empty());
      for (std::size_t b = 0; b < launched.size(); ++b) ASSERT_EQ(launched[b], b);
      ASSERT_EQ(listed(waiting.end()), launched);
      ASSERT_EQ(overlapping.missing().empty(), launched.size() == members.size());
      for (const std::size_t item : overlapping.missing()) {
        ASSERT_FALSE(is_complete[item]);
        ASSERT_EQ(plan.slot_of(item).bucket, launched.size());
      }
    }
  }
}

}  // namespace
}  // namespace tandem::distributed
