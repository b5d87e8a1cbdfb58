#include "tools/train/bert_settings.h"

#include "tandem/data/file.h"

namespace tandem::train {

models::BertConfig bert_config_of(const Settings& settings) {
  if (settings.model_config)
    return models::parse_bert_config(data::read_file(*settings.model_config), *settings.model_config);
  return models::bert_config(settings.model.substr(std::string_view("bert-").size()));
}

}  // namespace tandem::train
