// Text as documents of sentences, before it is tokenized.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/data/dataset.h"

namespace tandem::data {

/// Sentences one after the other, and where documents end. Copies share the text.
struct TextCorpus {
  std::string name = {};                         ///< where it is from, for messages
  std::shared_ptr<const std::string> text = {};  ///< what the sentences point into
  std::vector<std::string_view> sentences = {};
  std::vector<std::size_t> document_ends = {};  ///< numbers of sentences, increasing: no document is empty

  std::size_t documents() const { return document_ends.size(); }
  /// Number of the first sentence of a document.
  std::size_t document_begin(std::size_t document) const { return document == 0 ? 0 : document_ends[document - 1]; }
  /// Ends a document here, unless it has no sentence.
  void end_document();
};

/// A file in UTF-8: a sentence a line, a blank line ends a document. White space around a sentence and a byte order
/// mark are left out; a line may have any length. Throws Error with path and byte offset where the file is not UTF-8 or
/// holds a NUL byte, as binary files and UTF-16 do: what would be dropped silently is for the user to mend.
TextCorpus read_text_corpus(const std::filesystem::path& path);

/// Every how many documents one is for the test.
inline constexpr std::size_t kTestDocument = 50;

/// The training or the test part: documents 49, 99, 149, ... are the test. Where there are fewer than 50 documents the
/// last 50th of the sentences (rounded up) is the test instead, of which the first may then cut a document; one
/// sentence alone is for training. It is the same for every seed.
TextCorpus part_of(const TextCorpus& corpus, Split split);

}  // namespace tandem::data
