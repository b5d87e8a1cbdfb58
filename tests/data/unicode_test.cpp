#include "tandem/data/text/unicode.h"

#include <gtest/gtest.h>

namespace tandem::data {
namespace {

TEST(Unicode, DecodesWhatItEncodes) {
  for (const char32_t point : {U'\0', U'a', U'\x7f', U'\x80', U'\u07ff', U'\u0800', U'\ud7ff', U'\ue000', U'\uffff',
                               U'\U00010000', U'\U0010ffff'}) {
    std::string text = "x";
    append_utf8(&text, point);
    EXPECT_EQ(count_code_points(text), 2u);
    EXPECT_FALSE(find_invalid_utf8(text));
    std::size_t at = 1;
    EXPECT_EQ(next_code_point(text, &at), point);
    EXPECT_EQ(at, text.size());
  }
}

TEST(Unicode, RefusesWhatIsNotUtf8) {
  // A continuation alone, an overlong slash, a surrogate, above U+10FFFF, no such byte, cut short.
  for (const std::string wrong : {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                  "\xf8\x88\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98"}) {
    std::size_t at = 0;
    EXPECT_EQ(next_code_point(wrong + "z", &at), std::nullopt);
    EXPECT_EQ(at, 1u);
    EXPECT_EQ(find_invalid_utf8("ä" + wrong), 2u);
    EXPECT_EQ(find_invalid_utf8("ä" + wrong + "z"), 2u);
  }
  EXPECT_EQ(find_invalid_utf8(""), std::nullopt);
}

TEST(Unicode, Properties) {
  EXPECT_EQ(kind_of(U'\u0301'), CharacterKind::nonspacing_mark);
  EXPECT_EQ(kind_of(U'\u20dd'), CharacterKind::other);    // an enclosing mark
  EXPECT_EQ(kind_of(U'\u0378'), CharacterKind::other);    // not assigned
  EXPECT_EQ(kind_of(U'\u200b'), CharacterKind::ignored);  // zero width space, a format character
  EXPECT_EQ(kind_of(U'\ue000'), CharacterKind::ignored);
  EXPECT_EQ(kind_of(U'\u2028'), CharacterKind::space);
  EXPECT_EQ(kind_of(U'\u00bf'), CharacterKind::punctuation);
  EXPECT_EQ(kind_of(U'\u20ac'), CharacterKind::other);  // a currency symbol
  EXPECT_EQ(to_lower(U'\u03a3'), U'\u03c3');
  std::vector<Decomposed> parts;
  decompose(U'\ud55c', &parts);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].code_point, U'\u11ab');
  parts.clear();
  decompose(U'\u1e69', &parts);  // s with dot below and dot above
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1].combining_class, 220);
  EXPECT_EQ(parts[2].combining_class, 230);
}

}  // namespace
}  // namespace tandem::data
