#include "tools/predict/options.h"

#include <algorithm>
#include <array>
#include <CLI/CLI.hpp>

#include "tandem/data/text/tokenizer_files.h"
#include "tools/train/files/pretrained_folder.h"
#include "tools/train/settings/command_line.h"
#include "tools/train/settings/setting_table.h"

namespace tandem::predict {
namespace {

constexpr const char* kDescription =
    "Predicts with a model that train made: the classes of images or of lines of text, or the words at [MASK].\n"
    "Exit codes: 0 done, 1 failed (the last line on stderr says why), 2 wrong usage.";

// train's flags that count here, too: they win over what the run says.
constexpr std::array<std::string_view, 9> kSettings{"model",      "model-config", "image-size", "vocab",  "cased",
                                                    "batch-size", "precision",    "threads",    "classes"};

bool is_taken(const train::Setting& setting) {
  return std::find(kSettings.begin(), kSettings.end(), setting.name) != kSettings.end();
}

// A folder as Hugging Face's brings what the weights need.
void take_from_folder(const std::string& folder, train::Settings& s) {
  const auto config = train::file_in_folder(folder, train::kConfigFile);
  if (!config) return;
  s.model = "bert";
  s.model_config = *config;
  if (const auto words = data::tokenizer_in_folder(folder)) s.vocab = words->string();
}

void check(const Options& options) {
  if (options.from.has_value() == options.weights.has_value())
    fail_usage("one of --from and --weights is needed: a run folder of train, or a file of weights");
  if (options.top < 1) fail_usage("--top '{}': must be a whole number >= 1", options.top);
  if (options.output && !options.output->ends_with(".csv") && !options.output->ends_with(".safetensors"))
    fail_usage("-o '{}': must be a file whose name ends with .csv or .safetensors", *options.output);
}

}  // namespace

std::optional<Options> parse_command_line(int argc, const char* const* argv) {
  Options options;
  std::vector<train::Setting> table = train::setting_table(options.settings);
  std::erase_if(table, [](const train::Setting& setting) { return !is_taken(setting); });
  CLI::App app(kDescription, "predict");
  app.add_option("INPUT", options.inputs,
                 "images or folders of images; for a BERT, text files with one sample per line (- reads stdin), each "
                 "one segment, not a pair")
      ->required();
  app.add_option("--from", options.from, "run folder that train --out made");
  app.add_option("--weights", options.weights,
                 "instead of --from: a file that train --save-weights wrote, with --model; or a folder in the format "
                 "of Hugging Face");
  app.add_option("-o,--output", options.output,
                 "F.csv, or F.safetensors: logits, probabilities, names [CSV to standard output]");
  app.add_option("--top", options.top, "number of most probable classes, or words, to print per input [1]");
  app.add_flag("--truncate", options.truncate, "cut lines that are too long for the model");
  std::vector<std::pair<train::Setting*, CLI::Option*>> flags;
  for (train::Setting& setting : table) {
    const std::string name = "--" + setting.name;
    CLI::Option* option = setting.is_switch ? app.add_flag(name) : app.add_option(name);
    flags.emplace_back(&setting, option->description(setting.help));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    fail_usage("{} (see --help)", error.what());
  }
  check(options);
  if (options.from) train::read_run(*options.from, options.settings);
  if (options.weights) take_from_folder(*options.weights, options.settings);
  for (const auto& [setting, option] : flags) {
    if (option->count() == 0) continue;
    const auto text = option->as<std::string>();
    if (!setting->read(text)) fail_usage("--{} '{}': must be {}", setting->name, text, setting->allowed);
  }
  return options;
}

}  // namespace tandem::predict
