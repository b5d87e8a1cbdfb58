// The table of all settings: name, group, meaning, what is allowed, and how a value gets into its field and out again.
//
// Flags, --help, --config and config.json are all made from it, so a new setting is a new field and a new row.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/train/settings/settings.h"

namespace tandem::train {

struct Setting {
  std::string name;  ///< "batch-size": the flag without its dashes
  std::string group;
  std::string help;
  std::string allowed;          ///< "a whole number >= 1"
  bool is_switch = false;       ///< given without a value
  bool is_of_one_call = false;  ///< how this call treats what lies there (--overwrite), not a property of the run
  bool is_of_one_rank = false;  ///< may differ between the ranks of a run

  bool is_output = false;  ///< a place that the run writes to: its own, and no other run's

  /// Who this process is, as opposed to what the run is.
  void of_one_process() { is_of_one_call = is_of_one_rank = true; }

  /// Sets the field; false where the text is no allowed value.
  std::function<bool(const std::string&)> read;
  /// The same from JSON: a string, number or boolean, as the field is; null leaves open what may be left open.
  std::function<bool(const nlohmann::json&)> read_json;
  std::function<nlohmann::json()> write_json;
};

/// Each of them reads and writes its field of `settings`, which must outlive the table.
std::vector<Setting> setting_table(Settings& settings);

/// "; did you mean --batch-size?": names close to `name`, which is none of the table's; empty where none is.
std::string suggestion(const std::vector<Setting>& table, std::string_view name);

}  // namespace tandem::train
