#include "tools/train/files/run_identity.h"

#include "tools/train/files/class_names.h"
#include "tools/train/settings/bert_settings.h"
#include "tools/train/settings/setting_table.h"

namespace tandem::train {

RunIdentity run_identity(const Settings& settings, int ranks, const DataSource& data) {
  RunIdentity run;
  run.fixed = {{"--model", settings.model},
               {"model configuration", model_fingerprint(settings)},
               {"--data", data_name(*settings.data).kind},  // a file may be moved
               {"samples", std::to_string(data.train->size())},
               {"training data", data.fingerprint},
               {"ranks", std::to_string(ranks)},
               {"--batch-size", std::to_string(settings.batch_size)},
               {"--accumulation-steps", std::to_string(settings.accumulation_steps)},
               {"--optimizer", *settings.optimizer},
               {"--freeze", settings.freeze.value_or("nothing")},
               {"--precision", settings.precision},
               {"--seed", std::to_string(settings.seed)}};
  run.fixed.merge(class_names_metadata(settings, data));
  Settings copy = settings;
  for (const Setting& setting : setting_table(copy)) {
    const std::string flag = "--" + setting.name;
    const nlohmann::json value = setting.write_json();
    if ((setting.group == "Optimization" || flag == "--dropout") && !run.fixed.contains(flag))
      run.chosen[flag] = value.is_null() ? kUnsetValue : value.is_string() ? value.get<std::string>() : value.dump();
  }
  return run;
}

}  // namespace tandem::train
