#include "tandem/data/text/text_corpus.h"

#include <algorithm>

#include "tandem/core/files/file.h"
#include "tandem/core/lines.h"
#include "tandem/data/text/unicode.h"

namespace tandem::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kSpace = " \t\r\f\v";

std::string_view trim(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(kSpace), line.size());
  return line.substr(begin, line.find_last_not_of(kSpace) + 1 - begin);
}

void check_text(const std::filesystem::path& path, std::string_view text) {
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
    core::fail_at(path, at, "a NUL byte; needed text in UTF-8, a sentence a line");
  if (const auto at = find_invalid_utf8(text))
    core::fail_at(path, *at, "0x{:02x} is not UTF-8 here; needed text in UTF-8, a sentence a line",
                  static_cast<unsigned char>(text[*at]));
}

// Sentences [begin, end), with the ends of documents among them.
void append_range(const TextCorpus& from, std::size_t begin, std::size_t end, TextCorpus* to) {
  auto document = std::upper_bound(from.document_ends.begin(), from.document_ends.end(), begin);
  for (std::size_t sentence = begin; sentence < end; ++sentence) {
    to->sentences.push_back(from.sentences[sentence]);
    if (sentence + 1 != *document) continue;
    to->end_document();
    ++document;
  }
  to->end_document();
}

}  // namespace

void TextCorpus::end_document() {
  if (sentences.size() > (document_ends.empty() ? 0 : document_ends.back())) document_ends.push_back(sentences.size());
}

TextCorpus read_text_corpus(const std::filesystem::path& path) {
  TextCorpus corpus{.name = path.string(), .text = std::make_shared<const std::string>(core::read_file(path))};
  std::string_view text = *corpus.text;
  check_text(path, text);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  core::for_each_line(text, [&](std::string_view line) {
    if (const std::string_view sentence = trim(line); sentence.empty())
      corpus.end_document();
    else
      corpus.sentences.push_back(sentence);
  });
  corpus.end_document();
  return corpus;
}

TextCorpus part_of(const TextCorpus& corpus, Split split) {
  TextCorpus part{.name = corpus.name, .text = corpus.text};
  if (corpus.documents() >= kTestDocument) {
    for (std::size_t document = 0; document < corpus.documents(); ++document)
      if ((document % kTestDocument == kTestDocument - 1) == (split == Split::test))
        append_range(corpus, corpus.document_begin(document), corpus.document_ends[document], &part);
    return part;
  }
  const std::size_t sentences = corpus.sentences.size();
  const std::size_t test = sentences < 2 ? 0 : (sentences + kTestDocument - 1) / kTestDocument;
  if (split == Split::train)
    append_range(corpus, 0, sentences - test, &part);
  else
    append_range(corpus, sentences - test, sentences, &part);
  return part;
}

}  // namespace tandem::data
