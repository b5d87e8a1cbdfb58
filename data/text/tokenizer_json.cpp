#include "tandem/data/text/tokenizer_json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tandem/core/files/file.h"
#include "tandem/core/files/safetensors_header.h"
#include "tandem/data/text/wordpiece.h"

namespace tandem::data {
namespace {

using core::fail;
using nlohmann::json;

// A value of a message, on one line and short.
std::string shown(const json& value) {
  if (value.is_string()) return core::quoted_name(value.get_ref<const std::string&>());
  if (value.is_structured()) return value.is_object() ? "an object" : "an array";
  return value.dump();
}

// The tree, with bounds on what a hostile file could make of it: depth, and keys of which the last would count.
json parse_bounded(std::string_view text, const std::string& source) {
  constexpr int kDeepest = 16;
  std::vector<std::set<std::string>> keys;
  try {
    return json::parse(text, [&](int depth, json::parse_event_t event, const json& value) {
      if (depth > kDeepest) fail("{}: nested more than {} deep", source, kDeepest);
      if (event == json::parse_event_t::object_start) keys.emplace_back();
      if (event == json::parse_event_t::object_end) keys.pop_back();
      if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
        fail("{}: the key {} appears twice in one object", source, shown(value));
      return true;
    });
  } catch (const json::parse_error& error) {
    fail("{}, byte {}: not JSON", source, error.byte);
  } catch (const json::exception&) {
    fail("{}: holds a number that is too large", source);
  }
}

// Reads one object of the file; errors name the file and the object.
class Part {
 public:
  Part(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) fail("{}: is {}, needed an object", where_, shown(object_));
  }

  Part part(const char* key) const {
    const json* found = find(key);
    if (!found) fail("{}: has no \"{}\", which a BERT's tokenizer needs", where_, key);
    return {*found, fmt::format("{}, \"{}\"", where_, key)};
  }
  // Null where it is absent.
  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void fixed(const char* key, const json& only, bool needed = false) const {
    const json* found = find(key);
    if (found ? *found != only : needed)
      fail("{}: \"{}\" is {}, supported is {}", where_, key, found ? shown(*found) : "missing", shown(only));
  }
  bool boolean(const char* key, bool otherwise) const {
    const json* found = find(key);
    if (!found) return otherwise;
    if (!found->is_boolean()) fail("{}: \"{}\" is {}, needed true or false", where_, key, shown(*found));
    return found->get<bool>();
  }
  const json& object() const { return object_; }
  const std::string& where() const { return where_; }

 private:
  const json& object_;
  std::string where_;
};

// By their ids, each of which is there once.
std::vector<std::string> tokens_of(const Part& vocab) {
  const std::size_t count = vocab.object().size();
  std::vector<std::string> tokens(count);
  std::vector<bool> is_there(count);
  for (const auto& [token, id] : vocab.object().items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= count)
      fail("{}: token {} has id {}, needed a whole number from 0 to {}, each once: there are {} tokens", vocab.where(),
           core::quoted_name(token), shown(id), count - 1, count);
    const auto number = id.get<std::size_t>();
    if (is_there[number])
      fail("{}: tokens {} and {} have one id, {}", vocab.where(), core::quoted_name(tokens[number]),
           core::quoted_name(token), number);
    is_there[number] = true;
    tokens[number] = token;
  }
  return tokens;
}

// Found in the text before it is cut into words, which WordPiece does for the five special tokens alone.
void check_added_tokens(const json& added, const Vocabulary& vocabulary, const std::string& where) {
  if (!added.is_array()) fail("{}: \"added_tokens\" is {}, needed an array", where, shown(added));
  for (const json& one : added) {
    const Part token(one, where + ", \"added_tokens\"");
    const json* content = token.find("content");
    const json* id = token.find("id");
    if (!content || !content->is_string() || !id || !id->is_number_unsigned())
      fail("{}: needed are \"content\", a string, and \"id\", a whole number", token.where());
    const auto& name = content->get_ref<const std::string&>();
    if (std::find(kSpecialTokens.begin(), kSpecialTokens.end(), name) == kSpecialTokens.end())
      fail("{}: {} is added to the vocabulary, supported are {} alone", token.where(), core::quoted_name(name),
           fmt::join(kSpecialTokens, " "));
    if (const auto number = vocabulary.find(name); static_cast<std::uint64_t>(*number) != id->get<std::uint64_t>())
      fail("{}: {} has id {}, in the vocabulary {}", token.where(), core::quoted_name(name), shown(*id), *number);
  }
}

WordOptions word_options(const Part& normalizer) {
  WordOptions words;
  words.lower_case = normalizer.boolean("lowercase", true);
  words.strip_accents = normalizer.boolean("strip_accents", words.lower_case);
  words.chinese_characters = normalizer.boolean("handle_chinese_chars", true);
  words.clean_text = normalizer.boolean("clean_text", true);
  return words;
}

json added_token(const Vocabulary& vocabulary, std::string_view token) {
  return {
      {"id", *vocabulary.find(token)}, {"content", token}, {"single_word", false}, {"lstrip", false}, {"rstrip", false},
      {"normalized", false},           {"special", true}};
}

// [CLS] A [SEP], or [CLS] A [SEP] B [SEP].
json post_processor(const Vocabulary& vocabulary) {
  const auto special = [](const char* token, int type) -> json {
    return {{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* name, int type) -> json {
    return {{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  json tokens = json::object();
  for (const char* token : {"[CLS]", "[SEP]"})
    tokens[token] = {{"id", token}, {"ids", json::array({*vocabulary.find(token)})}, {"tokens", json::array({token})}};
  return {{"type", "TemplateProcessing"},
          {"single", json::array({special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0)})},
          {"pair", json::array({special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0), sequence("B", 1),
                                special("[SEP]", 1)})},
          {"special_tokens", tokens}};
}

}  // namespace

TokenizerFile parse_tokenizer_json(std::string_view text, const std::string& source) {
  const json tree = parse_bounded(text, source);
  const Part file(tree, source);
  const Part model = file.part("model");
  model.fixed("type", "WordPiece", /*needed=*/true);
  model.fixed("unk_token", "[UNK]");
  model.fixed("continuing_subword_prefix", std::string(kContinues));
  model.fixed("max_input_chars_per_word", kLongestWord);
  const Part normalizer = file.part("normalizer"), pre_tokenizer = file.part("pre_tokenizer");
  normalizer.fixed("type", "BertNormalizer", /*needed=*/true);
  pre_tokenizer.fixed("type", "BertPreTokenizer", /*needed=*/true);
  const Part vocab = model.part("vocab");
  TokenizerFile tokenizer{.vocabulary = Vocabulary(tokens_of(vocab), vocab.where() + " by id"),
                          .words = word_options(normalizer)};
  if (const json* added = file.find("added_tokens")) check_added_tokens(*added, tokenizer.vocabulary, source);
  return tokenizer;
}

TokenizerFile load_tokenizer_json(const std::filesystem::path& path) {
  return parse_tokenizer_json(core::read_text_file(path, "a vocabulary", kMostVocabularyBytes), path.string());
}

std::string to_tokenizer_json(const Vocabulary& vocabulary, const WordOptions& words) {
  json vocab = json::object();  // by token, not by number: an object in order would take quadratic time to make
  for (std::int64_t number = 0; number < vocabulary.size(); ++number) vocab[vocabulary.token(number)] = number;
  json added = json::array();
  for (const std::string_view token : kSpecialTokens) added.push_back(added_token(vocabulary, token));
  const json file{{"version", "1.0"},
                  {"truncation", nullptr},
                  {"padding", nullptr},
                  {"added_tokens", added},
                  {"normalizer",
                   {{"type", "BertNormalizer"},
                    {"clean_text", words.clean_text},
                    {"handle_chinese_chars", words.chinese_characters},
                    {"strip_accents", words.strip_accents},
                    {"lowercase", words.lower_case}}},
                  {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                  {"post_processor", post_processor(vocabulary)},
                  {"decoder", {{"type", "WordPiece"}, {"prefix", kContinues}, {"cleanup", true}}},
                  {"model",
                   {{"type", "WordPiece"},
                    {"unk_token", "[UNK]"},
                    {"continuing_subword_prefix", kContinues},
                    {"max_input_chars_per_word", kLongestWord},
                    {"vocab", std::move(vocab)}}}};
  return file.dump(2) + "\n";
}

}  // namespace tandem::data
