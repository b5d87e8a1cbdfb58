// The program `tokenize`, run as a user does.
#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

class TokenizeTest : public TrainTest {
 protected:
  Outcome run(const std::string& arguments) const { return shell("'" TANDEM_TOKENIZE "' " + arguments); }

  void expect_output(const std::string& arguments, const std::string& output) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.errors;
    EXPECT_EQ(outcome.output, output) << arguments;
  }

  void expect_error(const std::string& arguments, int code, const std::string& message) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments;
    EXPECT_EQ(outcome.errors, "tokenize: error: " + message + "\n") << arguments;
  }
};

TEST_F(TokenizeTest, ALineForALine) {
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##able\n!\n[\n]\nmask\n");
  write("text", "Unable!\n\n[MASK] \xff x");
  expect_output("text --vocab vocab.txt", "5 6 7\n\n8 10 9 1\n");
  expect_output("text --vocab vocab.txt --special --output tokens", "un ##able !\n\n[MASK] [UNK]\n");
  expect_output("text --vocab vocab.txt --cased", "1 7\n\n8 1 9 1\n");
  expect_output("text --output words --cased", "Unable !\n\n[ MASK ] x\n");
  const std::string normalizer = R"({"type": "BertNormalizer", "clean_text": false, "lowercase": true})";
  write("t.json", R"({"normalizer": )" + normalizer + R"(, "pre_tokenizer": {"type": "BertPreTokenizer"},
                     "model": {"type": "WordPiece", "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4,
                                                              "un": 5, "##able": 6}}})");
  write("marked", "\xef\xbb\xbfunable\n");
  expect_output("marked --vocab t.json", "5 6\n");
}

TEST_F(TokenizeTest, LearnsAVocabulary) {
  write("text", "aa ab aab\n\nab ab\n");
  expect_output("text --learn vocab.txt --size 10", "vocab.txt: 10 tokens from 2 sentences\n");
  EXPECT_EQ(read_text(folder_ / "vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n##b\nab\n");
  expect_output("text --vocab vocab.txt", "5 6 9 5 6 8\n\n9 9\n");
}

TEST_F(TokenizeTest, Errors) {
  write("text", "a\n");
  expect_error("text", 2, "--vocab is needed, or --learn, or --output words");
  expect_error("", 2, "FILE is required");
  expect_error("text --learn vocab.txt --vocab old.txt", 2, "--vocab excludes --learn");
  expect_error("text --learn vocab.txt --special", 2, "--special excludes --learn");
  expect_error("text --vocab vocab.txt --size 10", 2, "--size requires --learn");
  expect_error("text --output words --vocab vocab.txt", 2,
               "--output words knows no vocabulary: leave out --vocab, or take --output tokens");
  expect_error("text --output words --special", 2, "--output words knows no tokens: leave out --special");
  expect_error("none --output words", 1, "none: cannot be opened: No such file or directory");
  expect_error("text --learn vocab.txt --size 5", 1,
               "vocabulary: 5 tokens are too few for text: its 1 characters, alone and with \"##\", and the special "
               "tokens are 6");
  EXPECT_EQ(listing().size(), 1u);
}

}  // namespace
}  // namespace tandem::train
