#include "tandem/data/text/text_corpus.h"

#include <cmath>

#include "tandem/core/parallel.h"
#include "tandem/data/text/token_corpus.h"
#include "tests/data/text_samples.h"

namespace tandem::data {
namespace {

using Strings = std::vector<std::string>;

Strings sentences_of(const TextCorpus& corpus) { return {corpus.sentences.begin(), corpus.sentences.end()}; }

TEST(TextCorpus, ReadsDocuments) {
  const TemporaryFolder folder;
  const TextCorpus corpus =
      read_text_corpus(folder.put("f", "\xef\xbb\xbf\n one \r\ntw\u00f6\r\n\r\n \t\n\nthree\n\nfour\nfive"));
  EXPECT_EQ(sentences_of(corpus), (Strings{"one", "tw\u00f6", "three", "four", "five"}));
  EXPECT_EQ(corpus.document_ends, (std::vector<std::size_t>{2, 3, 5}));
  EXPECT_EQ(corpus.document_begin(2), 3u);
  EXPECT_EQ(corpus.name, (folder / "f").string());
  for (const std::string nothing : {"", "\n\n", " \n", "\xef\xbb\xbf"}) {
    const TextCorpus empty = read_text_corpus(folder.put("f", nothing));
    EXPECT_EQ(empty.documents(), 0u);
    EXPECT_TRUE(empty.sentences.empty());
  }
}

TEST(TextCorpus, WrongFiles) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& text) {
    return error_of([&] { read_text_corpus(folder.put("f", text)); });
  };
  expect_contains(error(std::string("ab\ncd\0e", 7)), "f, byte 5: a NUL byte; needed text in UTF-8, a sentence a line");
  expect_contains(error("ab\xff"), "f, byte 2: 0xff is not UTF-8 here; needed text in UTF-8, a sentence a line");
  expect_contains(error("\u00e4\xc3"), "f, byte 2: 0xc3 is not UTF-8 here");
  expect_contains(error_of([&] { read_text_corpus(folder / "none"); }), "cannot be opened");
}

TEST(TextCorpus, LongLinesTakeLinearTime) {
  const TemporaryFolder folder;
  std::string line;
  while (line.size() < 10'000'000) line += "\u00e4b c";
  const TextCorpus corpus = read_text_corpus(folder.put("f", line + "\n" + std::string(1'000'000, '\n')));
  EXPECT_EQ(corpus.sentences.size(), 1u);
  EXPECT_EQ(tokenize(corpus, WordPiece(numbered_vocabulary(9))).tokens.size(), 2'000'001u);
}

TEST(TextCorpus, EveryFiftiethDocumentIsTheTest) {
  std::vector<Strings> documents;
  for (int i = 0; i < 120; ++i) documents.push_back({fmt::format("{}", i), fmt::format("{}b", i)});
  const TextCorpus whole = corpus_of(documents), test = part_of(whole, Split::test),
                   train = part_of(whole, Split::train);
  EXPECT_EQ(sentences_of(test), (Strings{"49", "49b", "99", "99b"}));
  EXPECT_EQ(test.document_ends, (std::vector<std::size_t>{2, 4}));
  EXPECT_EQ(train.documents(), 118u);
  EXPECT_EQ(train.sentences.size(), 236u);
  EXPECT_EQ(train.sentences[98], "50");
  EXPECT_EQ(train.document_ends.back(), 236u);
}

TEST(TextCorpus, FewDocumentsAreCut) {
  const TextCorpus whole = corpus_of({{"a", "b"}, Strings(58, "c"), {"d", "e", "f"}});
  const TextCorpus test = part_of(whole, Split::test), train = part_of(whole, Split::train);
  EXPECT_EQ(sentences_of(test), (Strings{"e", "f"}));  // 63 / 50, rounded up
  EXPECT_EQ(test.document_ends, std::vector<std::size_t>{2});
  EXPECT_EQ(train.document_ends, (std::vector<std::size_t>{2, 60, 61}));
  const TextCorpus one = corpus_of({{"alone"}});
  EXPECT_EQ(part_of(one, Split::train).sentences.size(), 1u);
  EXPECT_EQ(part_of(one, Split::test).sentences.size(), 0u);
  EXPECT_EQ(part_of(corpus_of({}), Split::test).documents(), 0u);
}

TEST(TokenCorpus, KeepsSentences) {
  const TextCorpus corpus = corpus_of({{"w5 w6", "\x01"}, {"w6"}});
  const TokenCorpus tokens = tokenize(corpus, WordPiece(numbered_vocabulary(7)));
  EXPECT_EQ(tokens.tokens, (std::vector<std::int32_t>{5, 6, 6}));
  EXPECT_EQ(tokens.sentence_ends, (std::vector<std::int64_t>{2, 3}));
}

TEST(TokenCorpus, DoesNotDependOnThreads) {
  std::vector<Strings> documents;
  for (int i = 0; i < 9001; ++i) documents.push_back({fmt::format("w{}{}", i % 97, i % 3 ? " w5" : "")});
  const TextCorpus corpus = corpus_of(documents);
  const WordPiece tokenizer(numbered_vocabulary(90));
  const int threads = core::num_threads();
  core::set_num_threads(1);
  const TokenCorpus one = tokenize(corpus, tokenizer);
  core::set_num_threads(3);
  const TokenCorpus three = tokenize(corpus, tokenizer);
  core::set_num_threads(threads);
  EXPECT_EQ(one.tokens, three.tokens);
  EXPECT_EQ(one.sentence_ends, three.sentence_ends);
  EXPECT_EQ(one.sentence_ends.size(), 9001u);
}

TEST(TokenCorpus, UnigramEntropy) {
  EXPECT_DOUBLE_EQ(unigram_entropy({.tokens = {7, 9, 7, 8}, .sentence_ends = {4}}), 1.5 * std::log(2.0));
  EXPECT_EQ(unigram_entropy({.tokens = {3, 3}, .sentence_ends = {2}}), 0);
  EXPECT_EQ(unigram_entropy({}), 0);
}

}  // namespace
}  // namespace tandem::data
