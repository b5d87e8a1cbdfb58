#include "tandem/data/text/wordnet.h"

#include "tests/data/text_samples.h"

namespace tandem::data {
namespace {

using Strings = std::vector<std::string>;

Strings document_of(const TextCorpus& corpus, std::size_t document) {
  return {corpus.sentences.begin() + static_cast<std::ptrdiff_t>(corpus.document_begin(document)),
          corpus.sentences.begin() + static_cast<std::ptrdiff_t>(corpus.document_ends[document])};
}

// Debian's wordnet-base, version 3.0.
TEST(WordNet, ReadsTheGlosses) {
  const TextCorpus corpus = read_wordnet();
  ASSERT_EQ(corpus.documents(), 117'659u);  // 82,115 nouns, 13,767 verbs, 18,156 adjectives, 3,621 adverbs
  EXPECT_EQ(document_of(corpus, 0),
            Strings{"that which is perceived or known or inferred to have its own distinct existence "
                    "(living or nonliving)"});
  EXPECT_EQ(document_of(corpus, 5), (Strings{"an assemblage of parts that is regarded as a single entity",
                                             "how big is that part compared to the whole?", "the team is a unit"}));
  EXPECT_EQ(document_of(corpus, 82'115).front(),
            "draw air into, and expel out of, the lungs");  // the first verb
  EXPECT_GT(corpus.sentences.size(), 160'000u);
  EXPECT_LT(corpus.sentences.size(), 175'000u);
}

TEST(WordNet, WrongFiles) {
  const TemporaryFolder folder;
  const auto error = [&] { return error_of([&] { read_wordnet(folder.path()); }); };
  const std::string line = "00001740 03 n 01 entity 0 000 | ";
  folder.put("data.noun",
             "  a licence | \"of words\"\n" + line + "first; \"one\"; \"two\" - somebody; :\n" + line + ";\n");
  folder.put("data.verb", line + "\"cut short\n");
  expect_contains(error(), "data.adj: no such file; Debian's package wordnet-base has it");
  folder.put("data.adj", "");
  folder.put("data.adv", line + "last");
  const TextCorpus corpus = read_wordnet(folder.path());
  EXPECT_EQ(corpus.documents(), 3u);
  EXPECT_EQ(document_of(corpus, 0), (Strings{"first", "one", "two", "- somebody; :"}));
  EXPECT_EQ(document_of(corpus, 1), Strings{"cut short"});
  folder.put("data.adj", "  \n" + line + "good\n0001 no gloss\n");
  expect_contains(error(), "data.adj, byte 40: the line is no synset: it has no gloss behind \" | \"");
  folder.put("data.adj", line + "b\xff");
  expect_contains(error(), "data.adj, byte 33: is not UTF-8");
}

}  // namespace
}  // namespace tandem::data
