#include "tools/train/pretrained_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tandem/data/file.h"

namespace tandem::train {

std::optional<std::string> file_in_folder(const std::optional<std::string>& path, const char* name) {
  std::error_code error;
  if (!path || !std::filesystem::is_directory(*path, error)) return std::nullopt;
  const std::filesystem::path file = std::filesystem::path(*path) / name;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  return file.string();
}

bool says_cased(const std::string& file) {
  const auto json = nlohmann::json::parse(data::read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) core::fail("{}: holds no JSON object", file);
  const auto found = json.find("do_lower_case");
  return found != json.end() && found->is_boolean() && !found->get<bool>();
}

std::string tokenizer_config(bool cased) {
  const nlohmann::ordered_json json{{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", !cased}};
  return json.dump(2) + "\n";
}

}  // namespace tandem::train
