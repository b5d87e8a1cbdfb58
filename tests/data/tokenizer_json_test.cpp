#include "tandem/data/text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "tests/data/temporary_folder.h"

namespace tandem::data {
namespace {

using nlohmann::json;

// As transformers writes it, without what does not matter.
json bert() {
  return json::parse(R"({
    "version": "1.0", "truncation": null,
    "added_tokens": [{"id": 4, "content": "[MASK]", "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                   "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100,
              "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "##s": 6, "cat": 5}}})");
}

TokenizerFile parse(const json& file) { return parse_tokenizer_json(file.dump(), "t.json"); }
std::string error(const std::string& text) {
  return error_of([&] { parse_tokenizer_json(text, "t.json"); });
}
// After one change at a JSON pointer.
std::string error(const char* at, const json& value) {
  json file = bert();
  file[json::json_pointer(at)] = value;
  return error(file.dump());
}

TEST(TokenizerJson, Reads) {
  const TokenizerFile tokenizer = parse(bert());
  EXPECT_EQ(tokenizer.vocabulary.size(), 7);
  EXPECT_EQ(tokenizer.vocabulary.token(5), "cat");
  EXPECT_EQ(tokenizer.vocabulary.token(6), "##s");
  EXPECT_EQ(tokenizer.words, kUncased);
}

TEST(TokenizerJson, Switches) {
  json file = bert();
  file["normalizer"]["lowercase"] = false;
  EXPECT_EQ(parse(file).words, kCased);  // accents go as the case does
  file["normalizer"]["strip_accents"] = true;
  file["normalizer"]["handle_chinese_chars"] = false;
  file["normalizer"]["clean_text"] = false;
  EXPECT_EQ(
      parse(file).words,
      (WordOptions{.lower_case = false, .strip_accents = true, .chinese_characters = false, .clean_text = false}));
}

TEST(TokenizerJson, WritesWhatItReads) {
  const TemporaryFolder folder;
  const Vocabulary vocabulary = parse(bert()).vocabulary;
  for (const bool lower_case : {true, false})
    for (const bool strip_accents : {true, false}) {
      const WordOptions words{.lower_case = lower_case,
                              .strip_accents = strip_accents,
                              .chinese_characters = !lower_case,
                              .clean_text = !strip_accents};
      const TokenizerFile again =
          load_tokenizer_json(folder.put("t.json", "\xef\xbb\xbf" + to_tokenizer_json(vocabulary, words)));
      EXPECT_EQ(again.words, words);
      ASSERT_EQ(again.vocabulary.size(), vocabulary.size());
      for (std::int64_t i = 0; i < vocabulary.size(); ++i) EXPECT_EQ(again.vocabulary.token(i), vocabulary.token(i));
    }
}

TEST(TokenizerJson, OtherTokenizersAreNamed) {
  EXPECT_EQ(error("/model/type", "BPE"), "t.json, \"model\": \"type\" is \"BPE\", supported is \"WordPiece\"");
  EXPECT_EQ(error("/model/type", "Unigram"), "t.json, \"model\": \"type\" is \"Unigram\", supported is \"WordPiece\"");
  EXPECT_EQ(error("/model/type", nullptr), "t.json, \"model\": \"type\" is missing, supported is \"WordPiece\"");
  EXPECT_EQ(error("/normalizer/type", "NFC"),
            "t.json, \"normalizer\": \"type\" is \"NFC\", supported is \"BertNormalizer\"");
  EXPECT_EQ(error("/normalizer", nullptr), "t.json: has no \"normalizer\", which a BERT's tokenizer needs");
  EXPECT_EQ(error("/pre_tokenizer/type", "ByteLevel"),
            "t.json, \"pre_tokenizer\": \"type\" is \"ByteLevel\", supported is \"BertPreTokenizer\"");
  EXPECT_EQ(error("/model/unk_token", "<unk>"),
            "t.json, \"model\": \"unk_token\" is \"<unk>\", supported is \"[UNK]\"");
  EXPECT_EQ(error("/model/continuing_subword_prefix", ""),
            "t.json, \"model\": \"continuing_subword_prefix\" is \"\", supported is \"##\"");
  EXPECT_EQ(error("/model/max_input_chars_per_word", 20),
            "t.json, \"model\": \"max_input_chars_per_word\" is 20, supported is 100");
  EXPECT_EQ(error("/added_tokens/0/content", "<user>"),
            "t.json, \"added_tokens\": \"<user>\" is added to the vocabulary, supported are [PAD] [UNK] [CLS] [SEP] "
            "[MASK] alone");
}

TEST(TokenizerJson, WrongIds) {
  const std::string needed = ", needed a whole number from 0 to 6, each once: there are 7 tokens";
  for (const json& id :
       {json(7), json(-1), json(5.5), json("5"), json(1e300), json::array(), json(18446744073709551615u)})
    expect_contains(error("/model/vocab/cat", id), "t.json, \"model\", \"vocab\": token \"cat\" has id ");
  expect_contains(error("/model/vocab/cat", 7), "has id 7" + needed);  // and none has 5: a hole
  EXPECT_EQ(error("/model/vocab/cat", 6), "t.json, \"model\", \"vocab\": tokens \"##s\" and \"cat\" have one id, 6");
  EXPECT_EQ(error("/added_tokens/0/id", 3), "t.json, \"added_tokens\": \"[MASK]\" has id 3, in the vocabulary 4");
  EXPECT_EQ(error("/added_tokens/0/id", "x"),
            "t.json, \"added_tokens\": needed are \"content\", a string, and \"id\", a whole number");
}

TEST(TokenizerJson, HostileFiles) {
  EXPECT_EQ(error(""), "t.json, byte 1: not JSON");
  EXPECT_EQ(error("[]"), "t.json: is an array, needed an object");
  EXPECT_EQ(error("{}"), "t.json: has no \"model\", which a BERT's tokenizer needs");
  EXPECT_EQ(error("{\"a\": 1e999}"), "t.json: holds a number that is too large");
  EXPECT_EQ(error("{\"a\": \"\xff\"}"), "t.json, byte 8: not JSON");
  EXPECT_EQ(error(std::string(300000, '[')), "t.json: nested more than 16 deep");
  EXPECT_EQ(error("{\"a\": {\"cat\": 1, \"cat\": 2}}"), "t.json: the key \"cat\" appears twice in one object");
  EXPECT_EQ(error("/model", "x"), "t.json, \"model\": is \"x\", needed an object");
  EXPECT_EQ(error("/model/vocab", json::array({"a"})), "t.json, \"model\", \"vocab\": is an array, needed an object");
  EXPECT_EQ(error("/model/vocab", json::object()),
            "t.json, \"model\", \"vocab\" by id: has no token [PAD], needed are [PAD] [UNK] [CLS] [SEP] [MASK]");
  EXPECT_EQ(error("/normalizer/lowercase", "yes"),
            "t.json, \"normalizer\": \"lowercase\" is \"yes\", needed true or false");
  EXPECT_EQ(error("/added_tokens", "x"), "t.json: \"added_tokens\" is \"x\", needed an array");
  json file = bert();
  file["model"]["vocab"].erase("cat");
  file["model"]["vocab"]["a cat"] = 5;
  EXPECT_EQ(error(file.dump()), "t.json, \"model\", \"vocab\" by id, line 6: a token holds white space or a NUL byte");
  const TemporaryFolder folder;
  folder.put("huge.json", "");
  std::filesystem::resize_file(folder / "huge.json", (64 << 20) + 1);
  expect_contains(error_of([&] { load_tokenizer_json(folder / "huge.json"); }), "are too many for a vocabulary");
}

}  // namespace
}  // namespace tandem::data
