#include "tandem/data/text/tokenizer_files.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "tandem/core/files/file.h"

namespace tandem::data {
namespace {

using core::fail;
using nlohmann::json;

// What a tokenizer_config.json says; what it does not say is left open.
struct Switches {
  std::optional<bool> lower_case, strip_accents, chinese_characters;
};

// With another value the same vocab.txt is used with other words or pieces: BertJapaneseTokenizer asks MeCab for words.
void check_usual_words(const std::filesystem::path& file, const json& config) {
  const std::initializer_list<std::pair<const char*, json>> usual{{"do_basic_tokenize", true},
                                                                  {"do_word_tokenize", true},
                                                                  {"do_subword_tokenize", true},
                                                                  {"word_tokenizer_type", "basic"},
                                                                  {"subword_tokenizer_type", "wordpiece"}};
  for (const auto& [key, value] : usual)
    if (const auto found = config.find(key); found != config.end() && !found->is_null() && *found != value)
      fail("{}: \"{}\" is not {}, which alone is supported", file.string(), key, value.dump());
}

Switches read_switches(const std::filesystem::path& file) {
  const auto config = json::parse(core::read_text_file(file), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) fail("{}: holds no JSON object", file.string());
  check_usual_words(file, config);
  const auto read = [&](const char* key) -> std::optional<bool> {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) return std::nullopt;
    if (!found->is_boolean()) fail("{}: \"{}\" is not true or false", file.string(), key);
    return found->get<bool>();
  };
  return {.lower_case = read("do_lower_case"),
          .strip_accents = read("strip_accents"),
          .chinese_characters = read("tokenize_chinese_chars")};
}

void check_agree(const std::filesystem::path& config, const char* key, std::optional<bool> said,
                 const std::filesystem::path& file, const char* its_key, bool its) {
  if (said && *said != its)
    fail("{}: \"{}\" is {}, but {} says \"{}\": {}; they must say the same", config.string(), key, *said,
         file.filename().string(), its_key, its);
}

}  // namespace

std::optional<std::filesystem::path> tokenizer_in_folder(const std::filesystem::path& folder) {
  std::error_code error;
  for (const char* name : {kTokenizerFile, kVocabularyFile})
    if (std::filesystem::exists(folder / name, error)) return folder / name;
  return std::nullopt;
}

TokenizerFile load_tokenizer(const std::filesystem::path& file, bool cased) {
  const std::filesystem::path config = file.parent_path() / kTokenizerConfigFile;
  std::error_code error;
  const Switches said = std::filesystem::exists(config, error) ? read_switches(config) : Switches{};
  if (file.extension() == ".json") {
    TokenizerFile tokenizer = load_tokenizer_json(file);
    const WordOptions& words = tokenizer.words;
    if (cased && words.lower_case) fail("{}: says \"lowercase\": true, so --cased does not fit it", file.string());
    check_agree(config, "do_lower_case", said.lower_case, file, "lowercase", words.lower_case);
    check_agree(config, "strip_accents", said.strip_accents, file, "strip_accents", words.strip_accents);
    check_agree(config, "tokenize_chinese_chars", said.chinese_characters, file, "handle_chinese_chars",
                words.chinese_characters);
    return tokenizer;
  }
  if (cased && said.lower_case == true)
    fail("{}: says \"do_lower_case\": true, so --cased does not fit it", config.string());
  WordOptions words;
  words.lower_case = said.lower_case.value_or(!cased);
  words.strip_accents = said.strip_accents.value_or(words.lower_case);
  words.chinese_characters = said.chinese_characters.value_or(true);
  return {.vocabulary = Vocabulary::load(file), .words = words};
}

std::string to_tokenizer_config(const WordOptions& words) {
  // transformers' BertTokenizer always cleans the text; its general class does as tokenizer.json says.
  nlohmann::ordered_json config{{"tokenizer_class", words.clean_text ? "BertTokenizer" : "PreTrainedTokenizerFast"},
                                {"do_lower_case", words.lower_case},
                                {"strip_accents", words.strip_accents},
                                {"tokenize_chinese_chars", words.chinese_characters},
                                {"pad_token", "[PAD]"},
                                {"unk_token", "[UNK]"},
                                {"cls_token", "[CLS]"},
                                {"sep_token", "[SEP]"},
                                {"mask_token", "[MASK]"}};
  return config.dump(2) + "\n";
}

void save_tokenizer(const std::filesystem::path& folder, const TokenizerFile& tokenizer) {
  tokenizer.vocabulary.save(folder / kVocabularyFile);
  core::write_file_atomically(folder / kTokenizerFile, to_tokenizer_json(tokenizer.vocabulary, tokenizer.words));
  core::write_file_atomically(folder / kTokenizerConfigFile, to_tokenizer_config(tokenizer.words));
}

}  // namespace tandem::data
