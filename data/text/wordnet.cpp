#include "tandem/data/text/wordnet.h"

#include <algorithm>
#include <array>

#include "tandem/core/files/file.h"
#include "tandem/core/lines.h"
#include "tandem/data/text/unicode.h"

namespace tandem::data {
namespace {

constexpr std::array<const char*, 4> kFiles{"data.noun", "data.verb", "data.adj", "data.adv"};
constexpr std::string_view kBeforeGloss = " | ";

// What a gloss's parts are separated by is not theirs. A part that is left with no letter nor digit is none.
void add_sentence(std::string_view part, TextCorpus* corpus) {
  constexpr std::string_view kAround = " ;,";
  const std::size_t begin = std::min(part.find_first_not_of(kAround), part.size());
  part = part.substr(begin, part.find_last_not_of(kAround) + 1 - begin);
  const auto says_something = [](unsigned char c) {
    return c >= 0x80 || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  };
  if (std::any_of(part.begin(), part.end(), says_something)) corpus->sentences.push_back(part);
}

void add_synset(std::string_view gloss, TextCorpus* corpus) {
  for (std::size_t begin = 0; begin <= gloss.size();) {
    const std::size_t end = std::min(gloss.find('"', begin), gloss.size());
    add_sentence(gloss.substr(begin, end - begin), corpus);
    begin = end + 1;
  }
  corpus->end_document();
}

void add_file(const std::filesystem::path& path, std::string_view text, TextCorpus* corpus) {
  if (const auto at = find_invalid_utf8(text)) core::fail_at(path, *at, "is not UTF-8");
  core::for_each_line(text, [&](std::string_view line) {
    if (line.starts_with("  ")) return;  // the licence
    const std::size_t bar = line.find(kBeforeGloss);
    if (bar == std::string_view::npos)
      core::fail_at(path, static_cast<std::size_t>(line.data() - text.data()),
                    "the line is no synset: it has no gloss behind \" | \"");
    add_synset(line.substr(bar + kBeforeGloss.size()), corpus);
  });
}

}  // namespace

TextCorpus read_wordnet(const std::filesystem::path& folder) {
  auto text = std::make_shared<std::string>();
  std::array<std::size_t, kFiles.size()> ends;
  for (std::size_t i = 0; i < kFiles.size(); ++i) {
    const std::filesystem::path path = folder / kFiles[i];
    if (!std::filesystem::exists(path))
      core::fail("{}: no such file; Debian's package wordnet-base has it", path.string());
    *text += core::read_text_file(path);
    ends[i] = text->size();
  }
  TextCorpus corpus{.name = folder.string(), .text = text};
  for (std::size_t i = 0, begin = 0; i < kFiles.size(); begin = ends[i++])
    add_file(folder / kFiles[i], std::string_view(*text).substr(begin, ends[i] - begin), &corpus);
  return corpus;
}

}  // namespace tandem::data
