#include "tools/train/settings/command_line.h"

#include <algorithm>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <set>

#include "tandem/core/files/file.h"
#include "tandem/core/files/safetensors_header.h"
#include "tools/train/files/finished_run.h"
#include "tools/train/settings/setting_table.h"
#include "tools/train/settings/text_json.h"

namespace tandem::train {
namespace {

constexpr const char* kDescription =
    "Trains a network, or evaluates one. A process is one rank of a run: alone, or with other ranks that launch,\n"
    "torchrun, mpirun, srun or a person starts.\n"
    "A step is one update. It is computed from --accumulation-steps micro-steps, each of --batch-size samples per "
    "rank.\n"
    "The signals INT, TERM, HUP, USR1 and USR2 stop all ranks after the same update, with a checkpoint if the run "
    "keeps\n"
    "checkpoints; a later second signal ends them at once.\n"
    "Exit codes: 0 done, 1 failed (the last line on stderr says why), 2 wrong usage, 3 another rank failed,\n"
    "128 + N ended by signal N. Defaults stand in brackets.";

constexpr std::size_t kNameColumns = 34, kColumns = 120;

// "Model to train [convnet]" and "one of mlp, ..." make "Model to train; one of mlp, ... [convnet]".
std::string describe(const Setting& setting) {
  if (!setting.allowed.starts_with("one of")) return setting.help;
  std::string text = setting.help;
  const std::size_t end = text.ends_with(']') ? text.rfind(" [") : text.size();
  return text.insert(end, "; " + setting.allowed);
}

// In lines that fit beside the names.
std::string wrapped(std::string text) {
  for (std::size_t line = 0; text.size() - line > kColumns - kNameColumns;) {
    const std::size_t space = text.rfind(' ', line + kColumns - kNameColumns);
    if (space == text.npos || space <= line) break;
    text[space] = '\n';
    line = space + 1;
  }
  return text;
}

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
    option->description(wrapped(describe(setting)));
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

/// A file of settings, and the flag that asks for it, with which errors begin.
struct ConfigFile {
  std::string flag, path;

  template <class... Arguments>
  [[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    fail_usage("{} {}: {}", flag, path, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
};

nlohmann::json parse_config(const ConfigFile& file, const std::string& text) {
  std::set<std::string> keys;
  return nlohmann::json::parse(text, [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (depth > kMaxDepth) file.fail("nested more than {} deep", kMaxDepth);
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && !keys.insert(value.get<std::string>()).second)
      file.fail("the key {} appears twice", core::quoted_name(value.get<std::string>()));
    return true;
  });
}

// As JSON, shortened where long.
std::string shown(const nlohmann::json& value) {
  if (value.is_string()) return core::quoted_name(value.get<std::string>());
  const std::string text = value.dump();
  constexpr std::size_t kShown = 100;
  return text.size() > kShown ? text.substr(0, kShown) + "..." : text;
}

nlohmann::json load_config(const ConfigFile& file) {
  nlohmann::json config;
  try {
    config = parse_config(file, core::read_file(file.path));
  } catch (const nlohmann::json::parse_error& error) {
    file.fail("not valid JSON at byte {}", error.byte);
  } catch (const nlohmann::json::out_of_range&) {
    file.fail("holds a number that is too large");
  } catch (const UsageError&) {
    throw;
  } catch (const core::Error& error) {
    fail_usage("{} {}", file.flag, error.what());
  }
  for (const char* key : {"", kOutputs, kFacts})
    if (const auto& part = *key ? config.value(key, nlohmann::json::object()) : config; !part.is_object())
      file.fail("{}needs an object, {{\"batch-size\": 64, ...}}", *key ? fmt::format("\"{}\" ", key) : "");
  return config;
}

void read_settings(const ConfigFile& file, const nlohmann::json& config, std::vector<Setting>& table,
                   const std::set<std::string>& left_open = {}) {
  for (const auto& [key, value] : config.items()) {
    if (key == kOutputs || key == kFacts || left_open.contains(key)) continue;
    const auto setting = std::find_if(table.begin(), table.end(), [&](const Setting& s) { return s.name == key; });
    if (setting == table.end() || key == "config")
      file.fail("unknown key {}{}", core::quoted_name(key), suggestion(table, key));
    if (!setting->read_json(value)) file.fail("\"{}\" is {}, must be {}", key, shown(value), setting->allowed);
  }
}

std::optional<RunFacts> read_facts(const nlohmann::json& config) {
  const auto facts = config.find(kFacts);
  const auto number = [&](const char* key) {
    const auto found = facts->find(key);
    return found != facts->end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  if (facts == config.end() || number("ranks") < 1) return std::nullopt;
  return RunFacts{.ranks = number("ranks"), .global_batch = number("global_batch")};
}

/// The value of a flag, if it was given.
std::optional<std::string> given(const std::vector<Flag>& flags, std::string_view name) {
  for (const auto& [setting, option] : flags)
    if (setting->name == name && option->count() > 0) return option->as<std::string>();
  return std::nullopt;
}

// Outputs are one run's own: only a call that goes on with it writes there again.
bool goes_on(const std::vector<Flag>& flags, const nlohmann::json& outputs) {
  if (given(flags, "resume") != "true") return false;
  return std::all_of(flags.begin(), flags.end(), [&](const Flag& flag) {
    const std::string& name = flag.setting->name;
    if (name != "out" && name != "checkpoint-dir") return true;
    const auto place = given(flags, name);
    return !place || outputs.value(name, nlohmann::json()) == text_to_json(*place);
  });
}

std::set<std::string> read_derived(const nlohmann::json& config) {
  std::set<std::string> names;
  for (const auto& name : config.value(kFacts, nlohmann::json::object()).value(kDerived, nlohmann::json::array()))
    if (name.is_string()) names.insert(name);
  return names;
}

// What was derived is derived again: a learning rate that SGD had by default is not one that was chosen for Adam.
void read_config(const std::string& path, const std::vector<Flag>& flags, std::vector<Setting>& table,
                 Settings& settings) {
  const ConfigFile file{.flag = "--config", .path = path};
  const nlohmann::json config = load_config(file);
  read_settings(file, config, table, read_derived(config));
  const auto outputs = config.value(kOutputs, nlohmann::json::object());
  if (goes_on(flags, outputs)) read_settings(file, outputs, table);
  settings.config_facts = read_facts(config);
}

// Notes which settings it set.
void resolve(Settings& settings, const std::vector<Setting>& table) {
  std::vector<nlohmann::json> before;
  for (const Setting& setting : table) before.push_back(setting.write_json());
  resolve(settings);
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].write_json() != before[i]) settings.derived.push_back(table[i].name);
  std::sort(settings.derived.begin(), settings.derived.end());
}

void read_run(const std::string& run, const std::vector<Flag>& flags, std::vector<Setting>& table, Settings& settings) {
  const ConfigFile file{.flag = "--from", .path = run + "/config.json"};
  if (!std::filesystem::exists(file.path))
    fail_usage("--from {}: is no run folder of train, it has no config.json", run);
  read_settings(file, load_config(file), table);
  adopt_run(run, given(flags, "data"), settings);
}

void read_flags(const std::vector<Flag>& flags) {
  for (const auto& [setting, option] : flags) {
    if (option->count() == 0) continue;
    const auto text = option->as<std::string>();
    if (!setting->read(text)) fail_usage("--{} '{}': must be {}", setting->name, text, setting->allowed);
  }
}

}  // namespace

std::optional<Settings> parse_command_line(int argc, const char* const* argv) {
  Settings settings;
  std::vector<Setting> table = setting_table(settings);
  CLI::App app(kDescription, "train");
  app.allow_extras();
  app.get_formatter()->column_width(kNameColumns);
  app.get_formatter()->label("OPTIONS", "FLAGS");
  const std::vector<Flag> flags = add_flags(app, table);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view text = error.what();  // begins with the flag
    for (const auto& [setting, option] : flags)
      if (text.starts_with("--" + setting->name + ":"))
        fail_usage("--{} needs a value: {}", setting->name, setting->allowed);
    fail_usage("{}", text);
  } catch (const CLI::ParseError& error) {
    fail_usage("{}", error.what());
  }
  check_no_extras(app, table);
  if (const auto run = given(flags, "from")) read_run(*run, flags, table, settings);
  if (const auto path = given(flags, "config")) read_config(*path, flags, table, settings);
  read_flags(flags);
  resolve(settings, table);
  return settings;
}

void read_run(const std::string& run, Settings& settings) {
  std::vector<Setting> table = setting_table(settings);
  read_run(run, {}, table, settings);
}

nlohmann::ordered_json to_json(const Settings& settings) {
  Settings copy = settings;
  nlohmann::ordered_json config, outputs = nlohmann::ordered_json::object();
  for (const Setting& setting : setting_table(copy)) {
    if (setting.is_of_one_call) continue;
    const nlohmann::json value = setting.write_json();
    if (!setting.is_output) config[setting.name] = value;
    if (setting.is_output && !value.is_null()) outputs[setting.name] = value;
  }
  config[kOutputs] = outputs;
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
