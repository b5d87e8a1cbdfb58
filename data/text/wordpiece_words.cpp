#include "tandem/data/text/wordpiece_words.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tandem/data/text/unicode.h"

namespace tandem::data {
namespace {

constexpr char32_t kReplacement = 0xfffd;

constexpr bool is_space(char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
constexpr bool is_alphanumeric(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr std::array<CharacterKind, 128> kAscii = [] {
  std::array<CharacterKind, 128> kinds{};
  for (char32_t c = 0; c < kinds.size(); ++c)
    kinds[c] = is_space(c)            ? CharacterKind::space
               : c < ' ' || c == 0x7f ? CharacterKind::ignored
               : is_alphanumeric(c)   ? CharacterKind::other
                                      : CharacterKind::punctuation;
  return kinds;
}();

CharacterKind kind(char32_t c) { return c < kAscii.size() ? kAscii[c] : kind_of(c); }

// BERT's own ranges: CJK Unified Ideographs, their extensions A to E, and the compatibility ideographs.
bool is_chinese(char32_t c) {
  constexpr std::array<std::array<char32_t, 2>, 8> kRanges{{{0x3400, 0x4dbf},
                                                            {0x4e00, 0x9fff},
                                                            {0xf900, 0xfaff},
                                                            {0x20000, 0x2a6df},
                                                            {0x2a700, 0x2b73f},
                                                            {0x2b740, 0x2b81f},
                                                            {0x2b820, 0x2ceaf},
                                                            {0x2f800, 0x2fa1f}}};
  return c >= kRanges[0][0] &&
         std::any_of(kRanges.begin(), kRanges.end(), [c](const auto& range) { return c >= range[0] && c <= range[1]; });
}

// White space that `clean_text` drops as control characters.
constexpr bool is_control_space(char32_t c) { return c == 0x0b || c == 0x0c || c == 0x85; }

// Takes the characters of one text and writes its words.
class WordWriter {
 public:
  WordWriter(const WordOptions& options, std::string* words) : options_(options), words_(*words) {}

  void add(char32_t c) {
    const CharacterKind its_kind = kind(c);
    const bool is_dirt = its_kind == CharacterKind::ignored || c == kReplacement;
    if (is_dirt && options_.clean_text) return;
    if (its_kind == CharacterKind::space || (is_dirt && is_control_space(c))) {
      finish();
    } else if (c < kAscii.size()) {
      flush_marks();
      write(options_.lower_case && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c, its_kind);
    } else if (options_.strip_accents) {
      add_decomposed(c);
    } else {
      add_whole(c, its_kind);
    }
  }

  // Ends the word at hand.
  void finish() {
    flush_marks();
    if (in_word_) words_ += ' ';
    in_word_ = false;
  }

 private:
  void add_whole(char32_t c, CharacterKind its_kind) {
    constexpr char32_t kDottedI = 0x130, kDot = 0x307;
    const bool apart = options_.chinese_characters && is_chinese(c);
    if (apart) finish();
    if (!options_.lower_case) {
      write(c, its_kind);
    } else if (c == kDottedI) {  // the one character whose lower case is two
      write('i', CharacterKind::other);
      write(kDot, CharacterKind::nonspacing_mark);
    } else {
      write(to_lower(c), kind(to_lower(c)));
    }
    if (apart) finish();
  }

  void add_decomposed(char32_t c) {
    const bool apart =
        options_.chinese_characters && is_chinese(c);  // and its decomposition, which may be no such character
    if (apart) finish();
    parts_.clear();
    decompose(c, &parts_);
    for (const Decomposed& part : parts_) {
      if (part.combining_class == 0) flush_marks();
      if (part.combining_class != 0)
        marks_.push_back(part);
      else
        write_part(part.code_point);
    }
    if (apart) finish();
  }

  // NFD's order: within a run of combining characters by class, else as they came. That of the nonspacing ones matters
  // only where they end the run, for they are dropped.
  void flush_marks() {
    if (marks_.empty()) return;
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const Decomposed& a, const Decomposed& b) { return a.combining_class < b.combining_class; });
    for (const Decomposed& mark : marks_) write_part(mark.code_point);
    marks_.clear();
  }

  void write_part(char32_t c) {
    if (kind(c) == CharacterKind::nonspacing_mark) return;
    if (options_.lower_case) c = to_lower(c);
    write(c, kind(c));
  }

  void write(char32_t c, CharacterKind its_kind) {
    const bool apart = its_kind == CharacterKind::punctuation;
    if (apart && in_word_) words_ += ' ';
    if (c < kAscii.size())
      words_ += static_cast<char>(c);
    else
      append_utf8(&words_, c);
    if (apart) words_ += ' ';
    in_word_ = !apart;
  }

  WordOptions options_;
  std::string& words_;
  bool in_word_ = false;
  std::vector<Decomposed> parts_;
  std::vector<Decomposed> marks_;  // combining characters since the last one that starts, not yet in order
};

}  // namespace

void append_words(std::string_view text, const WordOptions& options, std::string* words) {
  WordWriter writer(options, words);
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < kAscii.size())
      writer.add(static_cast<unsigned char>(text[at++]));
    else if (const auto code_point = next_code_point(text, &at))
      writer.add(*code_point);
  }
  writer.finish();
}

}  // namespace tandem::data
