#include "tandem/data/text/masked_lm_dataset.h"

#include <cmath>
#include <random>
#include <set>

#include "tandem/core/parallel.h"
#include "tandem/data/text/text_data.h"
#include "tests/data/text_samples.h"

namespace tandem::data {
namespace {

using Row = std::vector<std::int64_t>;
using core::Shape;

constexpr int kSize = 1000;

MaskedLmDataset dataset_of(const std::vector<int>& lengths, const MaskedLmOptions& options) {
  return {numbered_corpus(lengths, kSize), numbered_vocabulary(kSize), options};
}

TEST(MaskedLmDataset, PacksWholeSentences) {
  const MaskedLmDataset dataset = dataset_of({3, 2, 1, 4, 14, 2, 1}, {.seq_length = 8});
  ASSERT_EQ(dataset.size(), 5);
  const Batch batch = dataset.read(range(5));
  EXPECT_EQ(batch.rows(), 5);
  EXPECT_EQ(unmasked(batch, 0), (Row{2, 5, 6, 7, 8, 9, 10, 3}));       // 3 + 2 + 1
  EXPECT_EQ(unmasked(batch, 1), (Row{2, 11, 12, 13, 14, 3, 0, 0}));    // 4, since 14 have no room
  EXPECT_EQ(unmasked(batch, 2), (Row{2, 15, 16, 17, 18, 19, 20, 3}));  // cut
  EXPECT_EQ(unmasked(batch, 4), (Row{2, 27, 28, 29, 30, 31, 3, 0}));   // its rest, and 2 + 1
  const Row mask = row_of(batch.attention_mask, 1);
  EXPECT_EQ(std::count(mask.begin(), mask.begin() + 6, 1), 6);
  EXPECT_EQ(std::count(mask.begin() + 6, mask.end(), 0), 2);
  EXPECT_EQ(row_of(batch.token_type_ids, 1), Row(8));
  EXPECT_FALSE(batch.next_sentence.defined());
  EXPECT_EQ(dataset.seq_length(), 8);
  EXPECT_EQ(dataset.vocabulary_size(), kSize);
  EXPECT_FALSE(dataset.pairs());
}

// Every token of any corpus is in exactly one sample, in order.
TEST(MaskedLmDataset, LosesNoToken) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> lengths(random() % 30);
    for (int& length : lengths) length = 1 + static_cast<int>(random() % 25);
    const MaskedLmDataset dataset = dataset_of(lengths, {.seq_length = 3 + static_cast<int>(random() % 20)});
    const Batch batch = dataset.read(range(dataset.size()));
    std::vector<std::int32_t> tokens;
    for (std::int64_t row = 0; row < batch.rows(); ++row)
      for (const std::int64_t token : unmasked(batch, row))
        if (token >= 5) tokens.push_back(static_cast<std::int32_t>(token));
    ASSERT_EQ(tokens, dataset.corpus().tokens);
  }
}

TEST(MaskedLmDataset, MasksAnewInEachEpoch) {
  const MaskedLmDataset dataset = dataset_of(std::vector<int>(400, 9), {.seq_length = 64});
  const auto read = [&](const std::vector<std::int64_t>& indices, std::uint64_t seed, std::uint32_t epoch) {
    return dataset.read(indices, {.seed = seed, .epoch = epoch});
  };
  const Row once = row_of(read({7}, 1, 3).input, 0);
  EXPECT_EQ(row_of(read({4, 7, 0}, 1, 3).input, 1), once);
  EXPECT_NE(row_of(read({7}, 2, 3).input, 0), once);
  EXPECT_NE(row_of(read({7}, 1, 4).input, 0), once);
  EXPECT_EQ(unmasked(read({7}, 1, 4), 0), unmasked(read({7}, 1, 3), 0));
  const int threads = core::num_threads();
  core::set_num_threads(1);
  const Batch one = read(range(dataset.size()), 1, 3);
  core::set_num_threads(3);
  const Batch three = read(range(dataset.size()), 1, 3);
  core::set_num_threads(threads);
  EXPECT_EQ(one.input.to_vector<std::int64_t>(), three.input.to_vector<std::int64_t>());
  EXPECT_EQ(one.target.to_vector<std::int64_t>(), three.target.to_vector<std::int64_t>());
}

// A pair's two segments, checked against its form.
struct Segments {
  Row first, second;
};
Segments segments_of(const Batch& batch, std::int64_t row) {
  const Row tokens = unmasked(batch, row), types = row_of(batch.token_type_ids, row),
            mask = row_of(batch.attention_mask, row);
  const auto sep = std::find(tokens.begin(), tokens.end(), 3), end = std::find(sep + 1, tokens.end(), 3);
  EXPECT_EQ(tokens[0], 2);
  EXPECT_NE(end, tokens.end());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto place = tokens.begin() + static_cast<std::ptrdiff_t>(i);
    EXPECT_EQ(types[i], place > sep && place <= end);
    EXPECT_EQ(mask[i], place <= end);
    EXPECT_EQ(tokens[i] == 0, place > end);
  }
  return {Row(tokens.begin() + 1, sep), Row(sep + 1, end)};
}

TEST(MaskedLmDataset, Pairs) {
  // Tokens of this corpus are all different, so a segment says where it is from.
  const MaskedLmDataset dataset = dataset_of(std::vector<int>(150, 6), {.seq_length = 32, .pairs = true});
  ASSERT_EQ(dataset.size(), 38);  // of four sentences, the last one of two
  const auto& ends = dataset.corpus().sentence_ends;
  std::set<std::int64_t> splits;
  int random = 0;
  for (std::uint32_t epoch = 0; epoch < 40; ++epoch) {
    const Batch batch = dataset.read(range(dataset.size()), {.seed = 5, .epoch = epoch});
    EXPECT_EQ(batch.next_sentence.shape(), (Shape{dataset.size()}));
    const Row labels = batch.next_sentence.to_vector<std::int64_t>();
    for (std::int64_t row = 0; row < dataset.size(); ++row) {
      const auto [first, second] = segments_of(batch, row);
      ASSERT_FALSE(first.empty());
      ASSERT_FALSE(second.empty());
      const std::int64_t after = first.back() - 5 + 1;  // number of the token behind the first segment
      EXPECT_TRUE(std::binary_search(ends.begin(), ends.end(), after));
      EXPECT_TRUE(std::binary_search(ends.begin(), ends.end(), second.front() - 5));  // a sentence begins there
      EXPECT_EQ(labels[static_cast<std::size_t>(row)], second.front() - 5 != after);
      random += static_cast<int>(labels[static_cast<std::size_t>(row)]);
      if (row == 0) splits.insert(after);
    }
  }
  const double all = 40 * static_cast<double>(dataset.size());
  EXPECT_NEAR(random, all / 2, 4 * std::sqrt(all) / 2);
  EXPECT_EQ(splits, (std::set<std::int64_t>{6, 12, 18}));
}

TEST(MaskedLmDataset, PairsOfOneSentence) {
  const MaskedLmDataset dataset = dataset_of({26, 13}, {.seq_length = 16, .pairs = true});
  ASSERT_EQ(dataset.size(), 3);
  for (std::uint32_t epoch = 0; epoch < 20; ++epoch) {
    const Batch batch = dataset.read(range(3), {.epoch = epoch});
    for (std::int64_t row = 0; row < 3; ++row) {
      const auto [first, second] = segments_of(batch, row);
      EXPECT_EQ(first.size(), 7u);
      EXPECT_EQ(second.size(), 6u);
    }
  }
}

// Wherever sentences of one token fall, and rests of long ones.
TEST(MaskedLmDataset, BothPartsOfAPairHaveTokens) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    std::vector<int> lengths(20 + random() % 20);
    for (int& length : lengths) length = random() % 2 == 0 ? 1 : 1 + static_cast<int>(random() % 30);
    const MaskedLmDataset dataset =
        dataset_of(lengths, {.seq_length = 6 + static_cast<int>(random() % 10), .pairs = true});
    const Batch batch = dataset.read(range(dataset.size()), {.epoch = static_cast<std::uint32_t>(round)});
    for (std::int64_t row = 0; row < batch.rows(); ++row) {
      const auto [first, second] = segments_of(batch, row);
      ASSERT_FALSE(first.empty() || second.empty()) << "round " << round << ", row " << row;
    }
  }
}

TEST(MaskedLmDataset, EmptyAndWrong) {
  for (const bool pairs : {false, true}) {
    const MaskedLmDataset empty = dataset_of({}, {.seq_length = 8, .pairs = pairs});
    EXPECT_EQ(empty.size(), 0);
    const Batch batch = empty.read({});
    EXPECT_EQ(batch.input.shape(), (Shape{0, 8}));
    EXPECT_EQ(batch.next_sentence.defined(), pairs);
  }
  TANDEM_EXPECT_ERROR(dataset_of({4}, {.seq_length = 2}),
                      "masked language model: sequences of 2 tokens have no room for text, needed 3 or more");
  TANDEM_EXPECT_ERROR(dataset_of({4}, {.seq_length = 4, .pairs = true}), "needed 5 or more");
  TANDEM_EXPECT_ERROR(dataset_of({4}, {.pairs = true}), "pairs need text for two samples or more, 4 tokens are one");
  TANDEM_EXPECT_ERROR(dataset_of({4}, {.mask_probability = 2}), "masking: a probability of 2");
  TANDEM_EXPECT_ERROR(dataset_of({4}, {}).read(std::vector<std::int64_t>{1}), "sample 1 was asked for, there are 1");
}

TEST(TextData, OpensACorpus) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 120; ++i) text += fmt::format("Sentence {} of the text.\nAnother one!\n\n", i);
  const TextCorpus corpus = read_text_corpus(folder.put("text", text));
  const TextData learned = open_text_data(corpus, {.vocabulary_size = 60, .samples = {.seq_length = 24}});
  EXPECT_EQ(learned.tokenizer.vocabulary().size(), 60);
  EXPECT_GT(learned.train->size(), 50);
  EXPECT_GT(learned.test->size(), 0);
  EXPECT_LT(learned.test->size(), 4);
  EXPECT_EQ(learned.train->vocabulary_size(), 60);
  EXPECT_EQ(learned.unigram_entropy, unigram_entropy(learned.train->corpus()));
  learned.tokenizer.vocabulary().save(folder / "vocab.txt");
  const TextData loaded =
      open_text_data(corpus, {.vocabulary = Vocabulary::load(folder / "vocab.txt"), .samples = {.seq_length = 24}});
  EXPECT_EQ(loaded.train->corpus().tokens, learned.train->corpus().tokens);
  TANDEM_EXPECT_ERROR(open_text_data(read_text_corpus(folder.put("empty", "\n"))), "empty: holds no text");
}

}  // namespace
}  // namespace tandem::data
