#include "tools/train/settings/bert_settings.h"

#include "tandem/core/files/file.h"
#include "tandem/core/fnv1a.h"

namespace tandem::train {

models::BertConfig bert_config_of(const Settings& settings) {
  if (!settings.model_config) return models::bert_config(settings.model.substr(std::string_view("bert-").size()));
  try {
    return models::parse_bert_config(core::read_file(*settings.model_config), *settings.model_config);
  } catch (const core::Error& error) {
    core::fail("--model-config {}", error.what());
  }
}

std::string model_fingerprint(const Settings& settings) {
  if (!is_bert(settings)) return "named";
  return fmt::format("{:016x}", core::fnv1a(models::to_json(bert_config_of(settings), "")));
}

}  // namespace tandem::train
