// The program `tokenize`: a text file's lines as numbers of tokens, and vocabularies learned from text.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "tandem/core/files/file.h"
#include "tandem/core/lines.h"
#include "tandem/data/text/tokenizer_files.h"
#include "tandem/data/text/wordnet.h"
#include "tandem/data/text/wordpiece.h"
#include "tandem/data/text/wordpiece_learner.h"
#include "tools/exit.h"

namespace tandem {
namespace {

enum class Output { ids, tokens, words };

struct Options {
  std::string file, vocabulary, learn;
  std::int64_t size = 8192;
  Output output = Output::ids;
  bool cased = false, special = false;

  const data::WordOptions& words() const { return cased ? data::kCased : data::kUncased; }
};

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string words_of(const std::string& text, const data::WordOptions& options) {
  std::string out, words;
  core::for_each_line(text, [&](std::string_view line) {
    words.clear();
    data::append_words(line, options, &words);
    if (!words.empty()) words.pop_back();
    (out += words) += '\n';
  });
  return out;
}

std::string pieces_of(const std::string& text, const data::WordPiece& tokenizer, bool as_numbers) {
  std::string out;
  core::for_each_line(text, [&](std::string_view line) {
    const char* separator = "";
    for (const std::int32_t token : tokenizer.encode(line)) {
      out += separator;
      if (as_numbers)
        fmt::format_to(std::back_inserter(out), "{}", token);
      else
        out += tokenizer.vocabulary().token(token);
      separator = " ";
    }
    out += '\n';
  });
  return out;
}

void run(const Options& options) {
  if (!options.learn.empty()) {
    const auto corpus = options.file == "wordnet" ? data::read_wordnet() : data::read_text_corpus(options.file);
    const auto learned = data::learn_vocabulary(corpus, {.size = options.size, .words = options.words()});
    learned.save(options.learn);
    return print(
        fmt::format("{}: {} tokens from {} sentences\n", options.learn, learned.size(), corpus.sentences.size()));
  }
  if (options.output == Output::words) {
    if (!options.vocabulary.empty())
      fail_usage("--output words knows no vocabulary: leave out --vocab, or take --output tokens");
    if (options.special) fail_usage("--output words knows no tokens: leave out --special");
    return print(words_of(core::read_text_file(options.file), options.words()));
  }
  if (options.vocabulary.empty()) fail_usage("--vocab is needed, or --learn, or --output words");
  data::TokenizerFile file = data::load_tokenizer(options.vocabulary, options.cased);
  const data::WordPiece tokenizer(std::move(file.vocabulary),
                                  {.words = file.words, .special_in_text = options.special});
  print(pieces_of(core::read_text_file(options.file), tokenizer, options.output == Output::ids));
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("FILE", options.file, "text, in UTF-8; with --learn also the word wordnet")->required();
  CLI::Option* vocabulary =
      app.add_option("--vocab", options.vocabulary,
                     "vocab.txt, one token a line, or a tokenizer.json; a tokenizer_config.json beside it counts, too");
  CLI::Option* output =
      app.add_option("--output", options.output, "ids, tokens, or words before they are cut into pieces")
          ->transform(CLI::CheckedTransformer(std::map<std::string, Output>{
              {"ids", Output::ids}, {"tokens", Output::tokens}, {"words", Output::words}}))
          ->option_text("ids|tokens|words");
  app.add_flag("--cased", options.cased, "the vocabulary has capitals and accents");
  CLI::Option* special = app.add_flag("--special", options.special, "[MASK] and the like in the text are those tokens");
  CLI::Option* learn = app.add_option("--learn", options.learn,
                                      "learn a vocabulary from FILE, a sentence a line, and write it to this file");
  learn->excludes(vocabulary, output, special);
  app.add_option("--size", options.size, "tokens of the vocabulary to learn")->capture_default_str()->needs(learn);
}

// None where only help was asked for, and given.
std::optional<Options> parse_command_line(int argc, char** argv) {
  CLI::App app("BERT's tokenizer: each line of a file becomes a line of tokens.", "tokenize");
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    fail_usage("{}", error.what());
  }
  return options;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  using namespace tandem;
  return run_program("tokenize", [&] {
    if (const auto options = parse_command_line(argc, argv)) run(*options);
  });
}
