#include "tandem/data/text/text_lines.h"

#include "tests/data/text_samples.h"

namespace tandem::data {
namespace {

using Ids = std::vector<std::int64_t>;

TextLines lines_of(const std::vector<std::string>& lines, const TextLinesOptions& options) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < lines.size(); ++i) names.push_back(fmt::format("f, line {}", i + 1));
  return TextLines(lines, names, WordPiece(numbered_vocabulary(9), {.special_in_text = true}), options);
}

TEST(TextLines, ClassifiesLines) {
  const TextLines lines = lines_of({"w5 w6 w7", "", "W8"}, {.classes = 3});
  EXPECT_EQ(lines.size(), 3);
  EXPECT_EQ(lines.seq_length(), 5);
  const Batch batch = lines.read(Ids{2, 0, 1});
  EXPECT_EQ(row_of(batch.input, 0), (Ids{2, 8, 3, 0, 0}));
  EXPECT_EQ(row_of(batch.attention_mask, 0), (Ids{1, 1, 1, 0, 0}));
  EXPECT_EQ(row_of(batch.input, 1), (Ids{2, 5, 6, 7, 3}));
  EXPECT_EQ(row_of(batch.input, 2), (Ids{2, 3, 0, 0, 0}));
  EXPECT_EQ(batch.target.to_vector<std::int64_t>(), (Ids{0, 0, 0}));
}

TEST(TextLines, FillsMasks) {
  const TextLines lines = lines_of({"w5 [MASK] w6 [MASK]", "[MASK]"}, {});
  EXPECT_EQ(lines.masks(), (Ids{2, 1}));
  const Batch batch = lines.read(Ids{0, 1});
  EXPECT_EQ(row_of(batch.input, 0), (Ids{2, 5, 4, 6, 4, 3}));
  EXPECT_EQ(row_of(batch.target, 0), (Ids{-100, -100, 4, -100, 4, -100}));
  EXPECT_EQ(row_of(batch.target, 1), (Ids{-100, 4, -100, -100, -100, -100}));
}

TEST(TextLines, LinesThatDoNotFit) {
  EXPECT_EQ(testing::error_of([] {
              lines_of({"[MASK]", "w5"}, {});
            }),
            "f, line 2: has no [MASK], which the model, a masked language model, could fill");
  EXPECT_EQ(testing::error_of([] { lines_of({"w5 w6 w7"}, {.longest = 4, .classes = 2}); }),
            "f, line 1: 5 tokens, the model takes 4; with --truncate lines are cut");
  const TextLines cut = lines_of({"w5 w6 w7"}, {.longest = 4, .truncate = true, .classes = 2});
  EXPECT_EQ(row_of(cut.read(Ids{0}).input, 0), (Ids{2, 5, 6, 3}));
}

}  // namespace
}  // namespace tandem::data
