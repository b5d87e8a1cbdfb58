// Which BERT the settings ask for.
#pragma once

#include "tandem/models/bert_config.h"
#include "tools/train/settings/settings.h"

namespace tandem::train {

/// --model bert-NAME, or bert with the --model-config that it was resolved to have. Throws Error where that file cannot
/// be read or is none.
models::BertConfig bert_config_of(const Settings& settings);

/// A hash of what a BERT's configuration says; of other models, whose names say it all, "named".
std::string model_fingerprint(const Settings& settings);

}  // namespace tandem::train
