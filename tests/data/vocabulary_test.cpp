#include "tandem/data/text/vocabulary.h"

#include "tests/data/temporary_folder.h"

namespace tandem::data {
namespace {

TEST(Vocabulary, Loads) {
  const TemporaryFolder folder;
  const std::string text = "[PAD]\nb\r\n[CLS]  \n##b\n[UNK]\n[MASK]\n\u4e2d\n[SEP]";
  const Vocabulary vocabulary = Vocabulary::load(folder.put("v", text));
  EXPECT_EQ(vocabulary.size(), 8);
  EXPECT_EQ(vocabulary.find("b"), 1);
  EXPECT_EQ(vocabulary.find("##b"), 3);
  EXPECT_EQ(vocabulary.find("\u4e2d"), 6);
  EXPECT_EQ(vocabulary.find("c"), std::nullopt);
  EXPECT_EQ(vocabulary.find(""), std::nullopt);
  EXPECT_EQ(vocabulary.token(3), "##b");
  EXPECT_EQ(vocabulary.special().all(), (std::array<std::int32_t, 5>{0, 4, 2, 7, 5}));
  // An editor's byte order mark is no part of the first token.
  EXPECT_EQ(Vocabulary::load(folder.put("marked", "\xef\xbb\xbf" + text)).token(0), "[PAD]");
  vocabulary.save(folder / "w");
  const Vocabulary again = Vocabulary::load(folder / "w");
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(again.token(i), vocabulary.token(i));
  TANDEM_EXPECT_ERROR(vocabulary.token(8), "vocabulary: there is no token 8, there are 8");
  TANDEM_EXPECT_ERROR(vocabulary.token(-1), "there is no token -1");
}

TEST(Vocabulary, WrongFiles) {
  const TemporaryFolder folder;
  const std::string special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  const auto error = [&](const std::string& text) {
    const std::string message = error_of([&] { Vocabulary::load(folder.put("v", text)); });
    expect_contains(message, (folder / "v").string());
    return message;
  };
  expect_contains(error(""), "v: has no token [PAD], needed are [PAD] [UNK] [CLS] [SEP] [MASK]");
  expect_contains(error("[PAD]\n[CLS]\n[SEP]\n[MASK]\n"), "has no token [UNK]");
  expect_contains(error(special + "a\nb\na\n"), "v, line 8: \"a\" is there already, in line 6");
  expect_contains(error(special + "a\n\nb\n"), "v, line 7: is empty, needed a token");
  expect_contains(error(special + "\xc3\x28\n"), "v, line 6: is not UTF-8 at its byte 0");
  expect_contains(error(special + "a b\n"), "v, line 6: a token holds white space or a NUL byte");
  expect_contains(error(special + std::string("a\0b", 3)), "line 6: a token holds white space or a NUL byte");
  std::filesystem::resize_file(folder / "v", (64 << 20) + 1);
  expect_contains(error_of([&] { Vocabulary::load(folder / "v"); }),
                  "67108865 bytes are too many for a vocabulary, at most 67108864 are read");
  expect_contains(error_of([&] { Vocabulary::load(folder / "none"); }), "none: cannot be opened");
  expect_contains(error_of([&] { Vocabulary::load(folder.path()); }), "is not a regular file");
}

}  // namespace
}  // namespace tandem::data
