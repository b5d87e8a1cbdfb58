#include "tandem/data/text/wordpiece_learner.h"

#include <map>
#include <random>

#include "tandem/core/parallel.h"
#include "tandem/data/text/wordpiece.h"
#include "tests/data/text_samples.h"

namespace tandem::data {
namespace {

std::vector<std::string> tokens_of(const Vocabulary& vocabulary) {
  std::vector<std::string> tokens;
  for (std::int64_t i = 0; i < vocabulary.size(); ++i) tokens.push_back(vocabulary.token(i));
  return tokens;
}

// Merges as the header says, counting every pair of every word anew each time.
std::vector<std::string> naive(const std::map<std::string, int>& counts, std::vector<std::string> tokens,
                               std::size_t size, int min_frequency) {
  std::map<std::string, std::vector<int>> words;
  const auto number = [&](const std::string& token) {
    return static_cast<int>(std::find(tokens.begin(), tokens.end(), token) - tokens.begin());
  };
  for (const auto& [word, count] : counts)
    for (std::size_t i = 0; i < word.size(); ++i) words[word].push_back(number((i ? "##" : "") + word.substr(i, 1)));
  while (tokens.size() < size) {
    std::map<std::pair<int, int>, int> pairs;
    for (const auto& [word, pieces] : words)
      for (std::size_t i = 0; i + 1 < pieces.size(); ++i) pairs[{pieces[i], pieces[i + 1]}] += counts.at(word);
    const auto best = std::max_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second < b.second : a.first > b.first;
    });
    if (best == pairs.end() || best->second < min_frequency) break;
    const auto [left, right] = best->first;
    const std::string merged =
        tokens[static_cast<std::size_t>(left)] + tokens[static_cast<std::size_t>(right)].substr(2);
    if (number(merged) == static_cast<int>(tokens.size())) tokens.push_back(merged);
    for (auto& [word, pieces] : words) {
      std::vector<int> next;
      for (std::size_t i = 0; i < pieces.size(); ++i)
        if (i + 1 < pieces.size() && pieces[i] == left && pieces[i + 1] == right)
          next.push_back(number(merged)), ++i;
        else
          next.push_back(pieces[i]);
      pieces = next;
    }
  }
  return tokens;
}

// First l o and lo w, which are there four times; then pairs of "newest", there twice, by the order of their pieces.
TEST(WordPieceLearner, MergesTheMostFrequentPair) {
  const TextCorpus corpus = corpus_of({{"low low low lower", "newest, newest"}});
  const auto tokens = tokens_of(learn_vocabulary(corpus, {.size = 30}));
  const std::vector<std::string> expected{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",",   "e",  "##e",
                                          "l",     "##l",   "n",     "##n",   "o",      "##o", "r",  "##r",
                                          "s",     "##s",   "t",     "##t",   "w",      "##w", "lo", "low",
                                          "##es",  "##ew",  "new",   "##est", "newest"};
  EXPECT_EQ(tokens, expected);
}

TEST(WordPieceLearner, IsTheNaiveAlgorithm) {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    std::map<std::string, int> counts;
    std::string line;
    const unsigned letters = 1 + random() % 4;
    for (int i = 0; i < 60; ++i) {
      std::string word(2 + random() % 7, 'a');
      for (char& letter : word) letter = static_cast<char>('a' + random() % letters);
      ++counts[word];
      line += word + " ";
    }
    const auto size = static_cast<std::size_t>(15 + random() % 80);
    const int min_frequency = 1 + static_cast<int>(random() % 4);
    auto learned = tokens_of(learn_vocabulary(
        corpus_of({{line}}), {.size = static_cast<std::int64_t>(size), .min_frequency = min_frequency}));
    std::vector<std::string> alphabet;
    for (const std::string& token : learned)
      if (token.size() == 1 || token.starts_with("[") || (token.size() == 3 && token.starts_with("##")))
        alphabet.push_back(token);
    ASSERT_EQ(alphabet.size(), 5 + 2 * letters);
    ASSERT_EQ(learned, naive(counts, alphabet, size, min_frequency)) << round;
  }
}

TEST(WordPieceLearner, Alphabet) {
  const TextCorpus corpus = corpus_of({{"aab a \u4e2d \u00c4b", "zz"}});
  EXPECT_EQ(tokens_of(learn_vocabulary(corpus, {.size = 12, .min_frequency = 9, .alphabet = 2})),
            (std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "b", "##b"}));
  const auto all = learn_vocabulary(corpus, {.size = 50, .words = kCased});
  EXPECT_TRUE(all.find("\u00c4") && all.find("##\u00c4") && all.find("##z") && all.find("\u4e2d"));
  EXPECT_FALSE(all.find("##\u4e2d"));  // it never has a neighbour
  EXPECT_EQ(learn_vocabulary(corpus_of({}), {.size = 9}).size(), 5);
  TANDEM_EXPECT_ERROR(learn_vocabulary(corpus, {.size = 8, .alphabet = 2}),
                      "vocabulary: 8 tokens are too few for test: its 2 characters, alone and with \"##\", and the "
                      "special tokens are 9");
  TANDEM_EXPECT_ERROR(learn_vocabulary(corpus, {.min_frequency = 0}), "a minimum frequency of 0, needed 1 or more");
  TANDEM_EXPECT_ERROR(learn_vocabulary(corpus, {.alphabet = 0}), "an alphabet of 0, needed 1 character or more");
}

TEST(WordPieceLearner, EveryWordOfTheAlphabetHasPieces) {
  const TextCorpus corpus = corpus_of({{"the theatre then thaws", "a long sentence; it's there, thence 42"}});
  const WordPiece tokenizer(learn_vocabulary(corpus, {.size = 60}));
  for (const std::string text : {"theatre", "wolf seen", "4th2 w", "42;'s"}) {
    const auto tokens = tokenizer.encode(text);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), tokenizer.vocabulary().special().unk),
              text == "wolf seen");  // no f
  }
}

}  // namespace
}  // namespace tandem::data
