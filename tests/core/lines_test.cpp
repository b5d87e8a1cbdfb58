#include "tandem/core/lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::core {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for_each_line(text, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Lines, last_newline_may_be_missing) {
  EXPECT_EQ(lines_of("a\nbc\n"), (Lines{"a", "bc"}));
  EXPECT_EQ(lines_of("a\nbc"), (Lines{"a", "bc"}));
}

TEST(Lines, empty_ones) {
  EXPECT_EQ(lines_of(""), Lines{});
  EXPECT_EQ(lines_of("\n"), Lines{""});
  EXPECT_EQ(lines_of("\n\na"), (Lines{"", "", "a"}));
}

TEST(Lines, what_else_is_in_the_text_stays) {
  EXPECT_EQ(lines_of(std::string_view("a\r\n\0b", 5)), (Lines{"a\r", std::string("\0b", 2)}));
}

TEST(Lines, lie_in_the_text) {
  const std::string_view text = "a\nb";
  for_each_line(text, [&](std::string_view line) { EXPECT_EQ(line, text.substr(line.data() - text.data(), 1)); });
}

}  // namespace
}  // namespace tandem::core
