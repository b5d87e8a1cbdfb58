#include "tandem/data/text/masking.h"

#include <cmath>
#include <set>

#include "tandem/data/dataset.h"
#include "tests/data/text_samples.h"

namespace tandem::data {
namespace {

using Row = std::vector<std::int64_t>;

// [CLS], n ordinary tokens, [SEP], padding.
Row row_with(int n, int size) {
  Row row{2};
  for (int i = 0; i < n; ++i) row.push_back(5 + i % (size - 5));
  row.push_back(3);
  row.insert(row.end(), 3, 0);
  return row;
}

core::PhiloxStream stream(std::int64_t index) { return sample_stream({.seed = 8}, index, Draw::mask); }

TEST(Masking, ChoosesAShare) {
  for (const auto& [n, probability, expected] : {std::tuple{100, 0.15, 15},
                                                 {10, 0.15, 2},
                                                 {3, 0.15, 1},
                                                 {1, 0.15, 1},
                                                 {0, 0.15, 0},
                                                 {7, 1.0, 7},
                                                 {126, 0.15, 19}}) {
    const Masking masking(numbered_vocabulary(50), probability);
    const Row original = row_with(n, 50);
    for (std::int64_t index = 0; index < 20; ++index) {
      Row input = original, target(original.size(), 17);
      masking.apply(input, target, stream(index));
      int chosen = 0;
      for (std::size_t i = 0; i < input.size(); ++i) {
        if (target[i] == kNotPredicted) {
          EXPECT_EQ(input[i], original[i]);
          continue;
        }
        ++chosen;
        EXPECT_EQ(target[i], original[i]);
        EXPECT_GE(original[i], 5);
        EXPECT_TRUE(input[i] == 4 || input[i] >= 5);  // [MASK] or ordinary
      }
      EXPECT_EQ(chosen, expected);
    }
  }
}

// Within four deviations of what the paper says.
TEST(Masking, EightyTenTen) {
  constexpr int kSize = 1005, kRows = 4000, kTokens = 40, kChosen = 6;
  const Masking masking(numbered_vocabulary(kSize), 0.15);
  std::vector<int> at_place(kTokens);
  std::set<std::int64_t> drawn;
  int masked = 0, kept = 0;
  for (std::int64_t index = 0; index < kRows; ++index) {
    const Row original = row_with(kTokens, kSize);
    Row input = original, target(original.size());
    masking.apply(input, target, stream(index));
    for (std::size_t i = 1; i <= kTokens; ++i) {
      if (target[i] == kNotPredicted) continue;
      ++at_place[i - 1];
      masked += input[i] == 4;
      kept += input[i] == original[i];
      if (input[i] != 4 && input[i] != original[i]) drawn.insert(input[i]);
    }
  }
  constexpr double kAll = kRows * kChosen;
  const auto expect_share = [](double count, double all, double p) {
    EXPECT_NEAR(count, all * p, 4 * std::sqrt(all * p * (1 - p)));
  };
  expect_share(masked, kAll, 0.8);
  expect_share(kept, kAll, 0.1001);  // a random token may be the same
  for (const int count : at_place) expect_share(count, kRows, double(kChosen) / kTokens);
  EXPECT_GT(drawn.size(), 880u);  // 909 of 1,000 expected after 2,400 draws
  EXPECT_EQ(*drawn.begin() >= 5, true);
  EXPECT_LT(*drawn.rbegin(), kSize);
}

TEST(Masking, RandomTokensAreOrdinaryWhereverTheSpecialOnesStand) {
  const Vocabulary vocabulary({"[MASK]", "a", "[UNK]", "[PAD]", "b", "[SEP]", "c", "[CLS]"});
  const Masking masking(vocabulary, 1);
  std::set<std::int64_t> seen;
  for (std::int64_t index = 0; index < 400; ++index) {
    Row input{7, 1, 4, 6, 5, 3}, target(6);
    masking.apply(input, target, stream(index));
    seen.insert(input.begin() + 1, input.begin() + 4);
    EXPECT_EQ(target, (Row{-100, 1, 4, 6, -100, -100}));
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{0, 1, 4, 6}));
}

TEST(Masking, WrongOptions) {
  for (const double probability : {0.0, -0.1, 1.1, std::nan("")})
    TANDEM_EXPECT_ERROR(Masking(numbered_vocabulary(9), probability), "needed more than 0 and at most 1");
  TANDEM_EXPECT_ERROR(Masking(numbered_vocabulary(5), 0.15), "masking: the vocabulary has special tokens alone");
}

}  // namespace
}  // namespace tandem::data
