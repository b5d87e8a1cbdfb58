#include "tandem/data/images/held_out.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tandem::data {
namespace {

using Names = std::vector<std::string>;

Names numbered(int count) {
  Names names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("cat/IMG_{:05}.jpg", i));
  return names;
}

std::int64_t count_chosen(const Names& names, double part) {
  const std::vector<bool> chosen = choose_held_out(names, part);
  EXPECT_EQ(chosen.size(), names.size());
  return std::count(chosen.begin(), chosen.end(), true);
}

// What is trained on must not change with a version of the library.
TEST(ChooseHeldOut, TheChoiceStaysAsItIs) {
  const std::vector<bool> chosen = choose_held_out(numbered(60), 0.1);
  std::vector<int> numbers;
  for (int i = 0; i < 60; ++i)
    if (chosen[static_cast<std::size_t>(i)]) numbers.push_back(i);
  EXPECT_EQ(numbers, (std::vector<int>{1, 6, 16, 30, 35, 37, 38, 53, 55, 59}));
}

TEST(ChooseHeldOut, OfTheWholeAndOfEachStretchOfNumbersThePart) {
  for (const double part : {0.02, 0.1, 0.5, 0.9}) {
    const std::vector<bool> chosen = choose_held_out(numbered(20000), part);
    const double deviation = std::sqrt(part * (1 - part));
    for (int begin = 0; begin < 20000; begin += 1000) {
      const auto count = static_cast<double>(std::count(chosen.begin() + begin, chosen.begin() + begin + 1000, true));
      EXPECT_NEAR(count, 1000 * part, 4 * deviation * std::sqrt(1000)) << part << " from " << begin;
    }
    const auto all = static_cast<double>(std::count(chosen.begin(), chosen.end(), true));
    EXPECT_NEAR(all, 20000 * part, 4 * deviation * std::sqrt(20000)) << part;
  }
}

TEST(ChooseHeldOut, OfTwoOrMoreAtLeastOneAndNotAll) {
  for (const double part : {1e-12, 0.1, 0.5, 1 - 1e-12}) {
    EXPECT_EQ(count_chosen({}, part), 0);
    EXPECT_EQ(count_chosen(numbered(1), part), 0);
    EXPECT_EQ(count_chosen(numbered(2), part), 1);
    EXPECT_GE(count_chosen(numbered(3), part), 1);
    EXPECT_LE(count_chosen(numbered(3), part), 2);
  }
  EXPECT_EQ(count_chosen(numbered(500), 1e-12), 1);
  EXPECT_EQ(count_chosen(numbered(500), 1 - 1e-12), 499);
}

TEST(ChooseHeldOut, NeitherOrderNorOtherNamesMatter) {
  const Names names = numbered(1000);
  const std::vector<bool> chosen = choose_held_out(names, 0.2);
  const std::vector<bool> backwards = choose_held_out({names.rbegin(), names.rend()}, 0.2);
  EXPECT_EQ(std::vector<bool>(backwards.rbegin(), backwards.rend()), chosen);
  const std::vector<bool> of_half = choose_held_out({names.begin(), names.begin() + 500}, 0.2);
  EXPECT_TRUE(std::equal(of_half.begin(), of_half.end(), chosen.begin()));
}

TEST(ChooseHeldOut, ALargerPartHoldsASmallerOne) {
  const Names names = numbered(1000);
  const std::vector<bool> few = choose_held_out(names, 0.1), many = choose_held_out(names, 0.3);
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_TRUE(many[i] || !few[i]) << names[i];
  EXPECT_GT(count_chosen(names, 0.3), count_chosen(names, 0.1));
}

}  // namespace
}  // namespace tandem::data
