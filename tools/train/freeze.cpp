#include "tools/train/freeze.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "tandem/core/error.h"
#include "tandem/nn/batch_norm2d.h"
#include "tandem/train/training_state.h"
#include "tools/train/settings/near_names.h"

namespace tandem::train {
namespace {

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// "layer1.0.conv1.weight" is also meant by "layer1.0.conv1", "layer1.0" and "layer1".
std::vector<std::string> names_of(const std::string& parameter) {
  std::vector<std::string> names{parameter};
  for (std::size_t dot = parameter.rfind('.'); dot != parameter.npos; dot = parameter.rfind('.', dot - 1))
    names.push_back(parameter.substr(0, dot));
  return names;
}

bool is_meant(const std::string& parameter, const std::string& pattern) {
  const std::vector<std::string> names = names_of(parameter);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

[[noreturn]] void fail_without_match(const std::string& pattern, const nn::Module& model) {
  std::vector<std::string> all, parts;  // parts: the model's own members
  const auto add = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const auto& [parameter, variable] : model.named_parameters()) {
    for (const std::string& name : names_of(parameter)) add(all, name);
    add(parts, names_of(parameter).back());
  }
  std::string plain = pattern;
  std::erase_if(plain, [](char c) { return c == '*' || c == '?'; });
  std::vector<std::string> near = near_names(plain, all);
  if (near.size() > 4) near.resize(4);
  const std::string advice = near.empty() ? fmt::format("the model's parts are {}", fmt::join(parts, ", "))
                                          : fmt::format("did you mean {}?", fmt::join(near, " or "));
  core::fail("--freeze {}: the model has no parameter or module of that name; {}", pattern, advice);
}

// Scale and shift are frozen, so nothing of it is trained.
void freeze_statistics(nn::Module& model) {
  for (nn::Module* module : model.modules()) {
    auto* norm = dynamic_cast<nn::BatchNorm2d*>(module);
    if (norm && norm->weight().defined() && !norm->weight().requires_grad() && !norm->bias().requires_grad())
      norm->freeze_statistics();
  }
}

}  // namespace

void freeze(nn::Module& model, const std::string& patterns) {
  const std::vector<nn::NamedParameter> parameters = model.named_parameters();
  for (const std::string& pattern : split_at_commas(patterns)) {
    bool has_match = false;
    for (auto [name, variable] : parameters) {
      if (!is_meant(name, pattern)) continue;
      variable.set_requires_grad(false);
      has_match = true;
    }
    if (!has_match) fail_without_match(pattern, model);
  }
  if (trained_parameters(model).empty()) core::fail("--freeze {}: leaves no parameter to train", patterns);
  freeze_statistics(model);
}

}  // namespace tandem::train
