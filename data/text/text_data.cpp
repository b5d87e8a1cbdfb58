#include "tandem/data/text/text_data.h"

namespace tandem::data {
namespace {

Vocabulary vocabulary_for(const TextCorpus& train, const TextDataOptions& options) {
  if (options.vocabulary) return *options.vocabulary;
  return learn_vocabulary(train, {.size = options.vocabulary_size, .words = options.words});
}

}  // namespace

TextData open_text_data(const TextCorpus& corpus, const TextDataOptions& options, const TextCorpus* test) {
  for (const TextCorpus* each : {&corpus, test})
    if (each && each->sentences.empty()) core::fail("{}: holds no text", each->name);
  const TextCorpus train = test ? corpus : part_of(corpus, Split::train);
  WordPiece tokenizer(vocabulary_for(train, options), {.words = options.words});
  const auto open = [&](const TextCorpus& part) {
    return std::make_unique<MaskedLmDataset>(tokenize(part, tokenizer), tokenizer.vocabulary(), options.samples);
  };
  auto train_set = open(train), test_set = open(test ? *test : part_of(corpus, Split::test));
  const double entropy = unigram_entropy(train_set->corpus());
  return {std::move(tokenizer), std::move(train_set), std::move(test_set), entropy};
}

}  // namespace tandem::data
