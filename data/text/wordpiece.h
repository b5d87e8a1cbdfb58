// BERT's tokenizer: text becomes numbers of tokens, by a given vocabulary.
//
// Words are cut by append_words() (wordpiece_words.h). A word becomes the longest piece that it begins with, then the
// longest "##" piece that its rest begins with, and so on; [UNK] where that fails, or where it has more than 100 code
// points. Source: Wu et al., "Google's neural machine translation system", 2016, section 4.1, and
// github.com/google-research/bert, tokenization.py, WordpieceTokenizer. Numbers are those of Hugging Face's
// BertTokenizerFast; tools/compare_tokenizer compares them, docs/text.md says where Unicode's versions differ.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/data/text/piece_trie.h"
#include "tandem/data/text/vocabulary.h"
#include "tandem/data/text/wordpiece_words.h"

namespace tandem::data {

struct WordPieceOptions {
  WordOptions words = {};  ///< as the vocabulary was made
  /// "[MASK]" and the like in the text are those tokens, as BertTokenizerFast has it by default. Else they are brackets
  /// and a word, as with its split_special_tokens: a corpus must not be able to forge them.
  bool special_in_text = false;
};

class WordPiece {
 public:
  explicit WordPiece(Vocabulary vocabulary, const WordPieceOptions& options = {});

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const WordPieceOptions& options() const { return options_; }

  /// The text's tokens, appended; neither [CLS] nor [SEP] around them. Any bytes will do: those that are not UTF-8 are
  /// left out. Safe from several threads at once.
  void encode(std::string_view text, std::vector<std::int32_t>* tokens) const;
  std::vector<std::int32_t> encode(std::string_view text) const;

 private:
  void encode_ordinary(std::string_view text, std::vector<std::int32_t>* tokens) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>* tokens) const;

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  PieceTrie first_;  // pieces that begin a word
  PieceTrie rest_;   // pieces that continue it, without their "##"
};

/// Code points of a word, at most; longer ones are [UNK].
inline constexpr std::size_t kLongestWord = 100;

}  // namespace tandem::data
