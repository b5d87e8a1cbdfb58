#include "tools/train/files/class_names.h"

#include <nlohmann/json.hpp>

namespace tandem::train {

core::Metadata class_names_metadata(const Settings& settings, const DataSource& data) {
  std::vector<std::string> names = data.class_names;
  if (names.empty()) return {};
  for (auto number = std::ssize(names); number < settings.classes.value_or(0); ++number)
    names.push_back(std::to_string(number));
  // A folder's name may be any bytes; what is no UTF-8 in it is replaced, since JSON has no place for it.
  return {{kClassesKey, nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)}};
}

}  // namespace tandem::train
