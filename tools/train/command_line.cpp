#include "tools/train/command_line.h"

#include <CLI/CLI.hpp>
#include <set>

#include "tandem/data/file.h"
#include "tandem/data/safetensors_header.h"
#include "tools/train/setting_table.h"

namespace tandem::train {
namespace {

constexpr const char* kDescription =
    "Trains a network: one rank of a run. Alone, or with others under launch, torchrun, mpirun, srun, or by hand.\n"
    "A step is one update, computed from accumulation-steps micro-steps of batch-size samples on each rank.\n"
    "Exit codes: 0 done, 1 failed (the last line on stderr says why), 2 wrong usage, 3 another rank failed, 128 + N "
    "ended by signal N.";
// config.json has this beside the settings.
constexpr const char* kVersions = "versions";

struct Flag {
  Setting* setting;
  CLI::Option* option;
};

std::vector<Flag> add_flags(CLI::App& app, std::vector<Setting>& table) {
  std::vector<Flag> flags;
  for (Setting& setting : table) {
    const std::string name = "--" + setting.name;
    CLI::Option* option = setting.is_switch ? app.add_flag(name) : app.add_option(name);
    const std::string& allowed = setting.allowed;
    if (!setting.is_switch)
      option->type_name(allowed.starts_with("a f") ? "PATH" : allowed.starts_with("a ") ? "NUMBER" : "NAME");
    option->description(setting.help + (allowed.starts_with("one of") ? "; " + allowed : ""));
    option->group(setting.group);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    flags.push_back({&setting, option});
  }
  return flags;
}

void check_no_extras(const CLI::App& app, const std::vector<Setting>& table) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  if (!extras.front().starts_with("-"))
    fail_usage("unexpected '{}': every setting is a flag (see --help)", extras.front());
  const std::string flag = extras.front().substr(0, extras.front().find('='));
  const std::size_t dashes = std::min(flag.find_first_not_of('-'), flag.size());
  fail_usage("unknown flag {}{} (see --help)", flag, suggestion(table, flag.substr(dashes)));
}

// Settings are plain values, so deeper nesting than this is no config, and printing it would recurse.
constexpr int kMaxDepth = 8;

nlohmann::json parse_config(const std::string& path, const std::string& text) {
  std::set<std::string> keys;
  return nlohmann::json::parse(text, [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (depth > kMaxDepth) fail_usage("--config {}: nested more than {} deep", path, kMaxDepth);
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && !keys.insert(value.get<std::string>()).second)
      fail_usage("--config {}: the key {} appears twice", path, data::quoted_name(value.get<std::string>()));
    return true;
  });
}

// As JSON, shortened where long.
std::string shown(const nlohmann::json& value) {
  if (value.is_string()) return data::quoted_name(value.get<std::string>());
  const std::string text = value.dump();
  constexpr std::size_t kShown = 100;
  return text.size() > kShown ? text.substr(0, kShown) + "..." : text;
}

void read_config(const std::string& path, std::vector<Setting>& table) {
  nlohmann::json config;
  try {
    config = parse_config(path, data::read_file(path));
  } catch (const nlohmann::json::parse_error& error) {
    fail_usage("--config {}: not valid JSON at byte {}", path, error.byte);
  } catch (const nlohmann::json::out_of_range&) {
    fail_usage("--config {}: holds a number that is too large", path);
  } catch (const UsageError&) {
    throw;
  } catch (const core::Error& error) {
    fail_usage("--config {}", error.what());
  }
  if (!config.is_object()) fail_usage("--config {}: needs an object, {{\"batch-size\": 64, ...}}", path);
  for (const auto& [key, value] : config.items()) {
    if (key == kVersions) continue;
    const auto setting = std::find_if(table.begin(), table.end(), [&](const Setting& s) { return s.name == key; });
    if (setting == table.end() || key == "config")
      fail_usage("--config {}: unknown key {}{}", path, data::quoted_name(key), suggestion(table, key));
    if (!setting->read_json(value))
      fail_usage("--config {}: \"{}\" is {}, allowed is {}", path, key, shown(value), setting->allowed);
  }
}

void read_flags(const std::vector<Flag>& flags) {
  for (const auto& [setting, option] : flags) {
    if (option->count() == 0) continue;
    const auto text = option->as<std::string>();
    if (!setting->read(text)) fail_usage("--{} '{}': allowed is {}", setting->name, text, setting->allowed);
  }
}

}  // namespace

std::optional<Settings> parse_command_line(int argc, const char* const* argv) {
  Settings settings;
  std::vector<Setting> table = setting_table(settings);
  CLI::App app(kDescription, "train");
  app.allow_extras();
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("OPTIONS", "FLAGS");
  const std::vector<Flag> flags = add_flags(app, table);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return std::nullopt;
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view text = error.what();  // begins with the flag
    for (const auto& [setting, option] : flags)
      if (text.starts_with("--" + setting->name + ":"))
        fail_usage("--{} needs a value: allowed is {}", setting->name, setting->allowed);
    fail_usage("{}", text);
  } catch (const CLI::ParseError& error) {
    fail_usage("{}", error.what());
  }
  check_no_extras(app, table);
  for (const auto& [setting, option] : flags)
    if (setting->name == "config" && option->count() > 0) read_config(option->as<std::string>(), table);
  read_flags(flags);
  resolve(settings);
  return settings;
}

nlohmann::ordered_json to_json(const Settings& settings) {
  Settings copy = settings;
  nlohmann::ordered_json config;
  for (const Setting& setting : setting_table(copy))
    if (!setting.is_of_one_call) config[setting.name] = setting.write_json();
  return config;
}

std::vector<std::string> settings_of_run(const Settings& settings) {
  Settings copy = settings;
  std::vector<std::string> lines;
  copy.data = data_name(*settings.data).kind;  // where it lies is each rank's own affair; what it holds is compared
  for (const Setting& setting : setting_table(copy))
    if (!setting.is_of_one_rank) lines.push_back(fmt::format("--{} {}", setting.name, setting.write_json().dump()));
  // Paths may differ, but whether there is something to write may not: all ranks take part.
  lines.push_back(checkpoint_folder(settings) ? "checkpoints" : "no checkpoints");
  lines.push_back(settings.save_outputs ? "--save-outputs" : "no --save-outputs");
  return lines;
}

}  // namespace tandem::train
