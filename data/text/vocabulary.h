// A WordPiece vocabulary: token by number, number by token, and BERT's five special tokens.
//
// The file vocab.txt is BERT's: one token a line, its number the line's, counted from 0. A token that continues a word
// begins with "##".
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::data {

/// Marks the pieces of a word behind its first.
inline constexpr std::string_view kContinues = "##";

/// Numbers of the special tokens; a learned vocabulary begins with them in this order.
struct SpecialTokens {
  std::int32_t pad = 0;   ///< [PAD]: fills a sequence up
  std::int32_t unk = 1;   ///< [UNK]: a word that no pieces make up
  std::int32_t cls = 2;   ///< [CLS]: begins a sequence
  std::int32_t sep = 3;   ///< [SEP]: ends a sentence of a pair, and the sequence
  std::int32_t mask = 4;  ///< [MASK]: stands for a token that is to be predicted

  std::array<std::int32_t, 5> all() const { return {pad, unk, cls, sep, mask}; }
};
inline constexpr std::array<std::string_view, 5> kSpecialTokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

/// Of a file with a vocabulary, at most: far above any in use, the largest have some megabytes.
inline constexpr std::uint64_t kMostVocabularyBytes = std::uint64_t{64} << 20;

class Vocabulary {
 public:
  /// Throws Error where a special token is missing, a token is empty, not UTF-8, has white space, or is there twice.
  /// Messages count tokens as lines from 1 and begin with `where`.
  explicit Vocabulary(std::vector<std::string> tokens, const std::string& where = "vocabulary");

  /// Reads vocab.txt; lines may end with CR LF, and a byte order mark may stand before the first. Throws Error naming
  /// path and line.
  static Vocabulary load(const std::filesystem::path& path);
  /// Writes vocab.txt whole or not at all.
  void save(const std::filesystem::path& path) const;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  /// Throws Error for a number that is none.
  const std::string& token(std::int64_t number) const;
  std::optional<std::int32_t> find(std::string_view token) const;
  const SpecialTokens& special() const { return special_; }

 private:
  std::vector<std::string> tokens_;
  std::vector<std::int32_t> sorted_;  // numbers, by their tokens
  SpecialTokens special_;
};

}  // namespace tandem::data
