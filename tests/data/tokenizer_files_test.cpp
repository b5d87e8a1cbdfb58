#include "tandem/data/text/tokenizer_files.h"

#include "tests/data/temporary_folder.h"

namespace tandem::data {
namespace {

const std::string kText = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n";

TEST(TokenizerFiles, WhatAFolderHas) {
  const TemporaryFolder folder;
  EXPECT_EQ(tokenizer_in_folder(folder.path()), std::nullopt);
  const auto text = folder.put("vocab.txt", kText);
  EXPECT_EQ(tokenizer_in_folder(folder.path()), text);
  const auto json = folder.put("tokenizer.json", "");
  EXPECT_EQ(tokenizer_in_folder(folder.path()), json);
}

TEST(TokenizerFiles, SavesWhatItLoads) {
  const TemporaryFolder folder;
  const Vocabulary vocabulary = Vocabulary::load(folder.put("v.txt", kText));
  for (const WordOptions& words :
       {kUncased, kCased, WordOptions{.strip_accents = false, .chinese_characters = false}}) {
    save_tokenizer(folder.path(), {.vocabulary = vocabulary, .words = words});
    for (const char* name : {"tokenizer.json", "vocab.txt"}) {
      const TokenizerFile again = load_tokenizer(folder / name);
      EXPECT_EQ(again.words, words) << name;
      EXPECT_EQ(again.vocabulary.token(5), "cat");
    }
  }
}

TEST(TokenizerFiles, SwitchesBesideVocabTxt) {
  const TemporaryFolder folder;
  const auto text = folder.put("vocab.txt", kText);
  EXPECT_EQ(load_tokenizer(text).words, kUncased);
  EXPECT_EQ(load_tokenizer(text, /*cased=*/true).words, kCased);
  const auto words_with = [&](const std::string& config) {
    folder.put("tokenizer_config.json", config);
    return load_tokenizer(text).words;
  };
  EXPECT_EQ(words_with("{}"), kUncased);
  EXPECT_EQ(words_with(R"({"do_lower_case": false})"), kCased);
  EXPECT_EQ(words_with(R"({"do_lower_case": true, "strip_accents": false})"), WordOptions{.strip_accents = false});
  EXPECT_EQ(words_with(R"({"strip_accents": null, "tokenize_chinese_chars": false})"),
            WordOptions{.chinese_characters = false});
}

TEST(TokenizerFiles, WhatDoesNotAgree) {
  const TemporaryFolder folder;
  const Vocabulary vocabulary = Vocabulary::load(folder.put("vocab.txt", kText));
  const auto json = folder.put("tokenizer.json", to_tokenizer_json(vocabulary, kUncased));
  const std::string config = folder.put("tokenizer_config.json", R"({"do_lower_case": false})").string();
  EXPECT_EQ(
      error_of([&] { load_tokenizer(json); }),
      config + ": \"do_lower_case\" is false, but tokenizer.json says \"lowercase\": true; they must say the same");
  folder.put("tokenizer_config.json", R"({"do_lower_case": true})");
  EXPECT_EQ(error_of([&] { load_tokenizer(json, /*cased=*/true); }),
            json.string() + ": says \"lowercase\": true, so --cased does not fit it");
  EXPECT_EQ(error_of([&] { load_tokenizer(folder / "vocab.txt", /*cased=*/true); }),
            config + ": says \"do_lower_case\": true, so --cased does not fit it");
  folder.put("tokenizer_config.json", R"({"do_lower_case": "no"})");
  EXPECT_EQ(error_of([&] { load_tokenizer(json); }), config + ": \"do_lower_case\" is not true or false");
  folder.put("tokenizer_config.json", R"({"do_basic_tokenize": true, "word_tokenizer_type": "mecab"})");
  for (const auto& file : {json, folder / "vocab.txt"})
    EXPECT_EQ(error_of([&] { load_tokenizer(file); }),
              config + ": \"word_tokenizer_type\" is not \"basic\", which alone is supported");
  folder.put("tokenizer_config.json", R"({"do_basic_tokenize": false})");
  EXPECT_EQ(error_of([&] { load_tokenizer(json); }),
            config + ": \"do_basic_tokenize\" is not true, which alone is supported");
  folder.put("tokenizer_config.json", "[");
  EXPECT_EQ(error_of([&] { load_tokenizer(json); }), config + ": holds no JSON object");
}

}  // namespace
}  // namespace tandem::data
