#include "tandem/data/text/synthetic_text.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/data/samples.h"

namespace tandem::data {
namespace {

// The tokens as they were before some were masked.
std::vector<std::int64_t> whole(const Batch& batch) {
  auto tokens = batch.input.to_vector<std::int64_t>();
  const auto labels = batch.target.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i] == 0, labels[i] != kNotPredicted) << i;
    if (tokens[i] == 0) tokens[i] = labels[i];
  }
  return tokens;
}

TEST(SyntheticText, CountsOnByTheSamplesOwnStep) {
  const SyntheticText text({.size = 200, .seq_length = 20, .vocabulary_size = 50});
  const Batch batch = text.read(range(200));
  EXPECT_EQ(batch.input.shape(), (core::Shape{200, 20}));
  EXPECT_FALSE(batch.next_sentence.defined());
  const auto tokens = whole(batch);
  std::int64_t masked = 0;
  for (std::size_t row = 0; row < 200; ++row) {
    const auto* t = tokens.data() + row * 20;
    const std::int64_t step = (t[1] - t[0] + 49) % 49;
    EXPECT_TRUE(step >= 1 && step <= 8) << row;
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_TRUE(t[i] >= 1 && t[i] < 50);
      EXPECT_EQ((t[i] - t[i > 0 ? i - 1 : 0] + 49) % 49, i > 0 ? step : 0) << row << " " << i;
    }
  }
  for (const std::int64_t label : batch.target.to_vector<std::int64_t>()) masked += label != kNotPredicted;
  EXPECT_NEAR(static_cast<double>(masked) / 4000, 0.15, 0.02);
}

TEST(SyntheticText, HalfOfThePairsFollow) {
  const SyntheticText text({.size = 400, .seq_length = 16, .vocabulary_size = 1000, .pairs = true});
  const Batch batch = text.read(range(400));
  const auto tokens = whole(batch), types = batch.token_type_ids.to_vector<std::int64_t>(),
             labels = batch.next_sentence.to_vector<std::int64_t>();
  for (std::size_t row = 0; row < 400; ++row) {
    const auto* t = tokens.data() + row * 16;
    const auto step = [&](std::size_t i) { return (t[i + 1] - t[i] + 999) % 999; };
    EXPECT_EQ(labels[row] == 0, step(0) == step(8)) << row;
    EXPECT_EQ(types[row * 16 + 7], 0);
    EXPECT_EQ(types[row * 16 + 8], 1);
  }
  EXPECT_NEAR(std::accumulate(labels.begin(), labels.end(), 0.0) / 400, 0.5, 0.08);
}

TEST(SyntheticText, ASampleIsAFunctionOfSeedAndNumber) {
  const SyntheticText a({.size = 20}), b({.first = 5, .size = 10}), other({.size = 20, .seed = 1});
  const auto tokens = [](const SyntheticText& text, std::int64_t index) {
    return text.read({&index, 1}).input.to_vector<std::int64_t>();
  };
  EXPECT_EQ(tokens(a, 7), tokens(b, 2));
  EXPECT_NE(tokens(a, 7), tokens(a, 8));
  EXPECT_NE(tokens(a, 7), tokens(other, 7));
  EXPECT_EQ(a.read({}).input.shape(), (core::Shape{0, 128}));
}

TEST(SyntheticText, BatchesSayWhichPositionsArePredicted) {
  const SyntheticText text({.size = 8, .seq_length = 24, .vocabulary_size = 50});
  const Batch batch = text.read(std::vector<std::int64_t>{3, 0, 5});
  const auto all = batch.target.to_vector<std::int64_t>();
  const auto positions = batch.predicted_positions.to_vector<std::int64_t>(),
             targets = batch.predicted_targets.to_vector<std::int64_t>();
  ASSERT_EQ(positions.size(), targets.size());
  EXPECT_GT(positions.size(), 0u);
  std::size_t next = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == kNotPredicted) continue;
    ASSERT_LT(next, positions.size());
    EXPECT_EQ(positions[next], static_cast<std::int64_t>(i));
    EXPECT_EQ(targets[next], all[i]);
    ++next;
  }
  EXPECT_EQ(next, positions.size());
}

TEST(SyntheticText, WrongOptions) {
  EXPECT_EQ(error_of([] { SyntheticText({.size = -1}); }),
            "synthetic text: -1 samples from number 0 on, needed numbers from 0 to 2^32 - 1");
  EXPECT_EQ(error_of([] { SyntheticText({.seq_length = 1}); }), "synthetic text: sequences of 1, needed 2 or more");
  EXPECT_EQ(error_of([] { SyntheticText({.vocabulary_size = 15}); }), "synthetic text: 15 tokens, needed 16 or more");
}

}  // namespace
}  // namespace tandem::data
