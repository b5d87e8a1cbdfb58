#include "tandem/nn/module.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>

namespace tandem::nn {

using core::fail;

// Depth first, parents before children: calls visit_module(module, "prefix.") for this module and all below.
template <class Visit>
void Module::visit(const std::string& prefix, Visit&& visit_module) {
  visit_module(*this, prefix);
  for (const auto& [name, module] : modules_) module->visit(prefix + name + ".", visit_module);
}

Variable Module::forward(const Variable&) { fail("module: forward with a single input is not what this module takes"); }

std::vector<NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> all;
  std::set<const void*> seen;
  const_cast<Module*>(this)->visit("", [&](const Module& module, const std::string& prefix) {
    for (const auto& [name, variable] : module.parameters_)
      if (seen.insert(variable.state().get()).second) all.push_back({prefix + name, variable});
  });
  return all;
}

std::vector<Variable> Module::parameters() const {
  std::vector<Variable> all;
  for (auto& [name, variable] : named_parameters()) all.push_back(std::move(variable));
  return all;
}

std::vector<NamedBuffer> Module::named_buffers() {
  std::vector<NamedBuffer> all;
  visit("", [&](const Module& module, const std::string& prefix) {
    for (const auto& [name, tensor] : module.buffers_) all.push_back({prefix + name, tensor});
  });
  return all;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> all;
  visit("", [&](Module& module, const std::string&) { all.push_back(&module); });
  return all;
}

void Module::train(bool training) {
  visit("", [&](Module& module, const std::string&) { module.training_ = training; });
}

StateDict Module::state_dict() {
  StateDict state;
  for (const auto& [name, variable] : named_parameters()) state.emplace_back(name, variable.data());
  for (const auto& [name, tensor] : named_buffers()) state.emplace_back(name, *tensor);
  return state;
}

std::string NameDifference::str() const {
  const auto list = [](const std::vector<std::string>& names) -> std::string {
    constexpr std::size_t kShown = 8;
    if (names.empty()) return "none";
    const std::span shown(names.data(), std::min(kShown, names.size()));
    const std::string more = names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "";
    return fmt::format("{}{}", fmt::join(shown, " "), more);
  };
  return fmt::format("missing: {}; unexpected: {}", list(missing), list(unexpected));
}

namespace {

NameDifference compare_names(const StateDict& own, const StateDict& state) {
  const auto lacking = [](const StateDict& who, const StateDict& other) {
    std::set<std::string_view> names;
    for (const auto& [name, tensor] : who) names.insert(name);
    std::vector<std::string> all;
    for (const auto& [name, tensor] : other)
      if (!names.count(name)) all.push_back(name);
    return all;
  };
  return {.missing = lacking(state, own), .unexpected = lacking(own, state)};
}

// Copies what both have. Throws before anything is changed.
void copy_state(StateDict& own, const StateDict& state) {
  std::map<std::string_view, const Tensor*> sources;
  for (const auto& [name, tensor] : state) sources[name] = &tensor;
  for (const auto& [name, tensor] : own)
    if (const auto source = sources.find(name); source != sources.end() && source->second->shape() != tensor.shape())
      fail("load_state_dict: {} has shape {}, the model's is {}", name, source->second->shape().str(),
           tensor.shape().str());
  for (auto& [name, tensor] : own)
    if (const auto source = sources.find(name); source != sources.end()) tensor.copy_from(*source->second);
}

}  // namespace

void Module::load_state_dict(const StateDict& state) {
  StateDict own = state_dict();
  const NameDifference difference = compare_names(own, state);
  if (!difference.empty()) fail("load_state_dict: {}", difference.str());
  copy_state(own, state);
}

NameDifference Module::load_matching(const StateDict& state) {
  StateDict own = state_dict();
  copy_state(own, state);
  return compare_names(own, state);
}

void Module::to(DType dtype) {
  if (!core::is_floating(dtype)) fail("module: to({}) is not a floating dtype", core::name(dtype));
  for (auto& [name, variable] : named_parameters())
    if (core::is_floating(variable.dtype())) variable.set_data(variable.data().to(dtype));
  for (auto& [name, tensor] : named_buffers())
    if (core::is_floating(tensor->dtype())) *tensor = tensor->to(dtype);
}

void Module::to(core::Device device) {
  for (auto& [name, variable] : named_parameters())
    if (variable.data().device() != device) variable.set_data(variable.data().to(device));
  for (auto& [name, tensor] : named_buffers()) *tensor = tensor->to(device);
}

void Module::zero_grad() {
  for (auto& [name, variable] : named_parameters()) variable.set_grad({});
}

void Module::set_random_context(const core::RandomContext& context) {
  std::uint32_t number = 0;
  visit("", [&](Module& module, const std::string&) {
    if (module.draws()) module.random_context_changed(context, number++);
  });
}

void Module::random_context_changed(const core::RandomContext&, std::uint32_t) {}

void Module::check_new(const std::string& name) const {
  const auto is_taken = [&](const auto& members) {
    return std::any_of(members.begin(), members.end(), [&](const auto& member) { return member.first == name; });
  };
  if (name.empty()) fail("module: a member needs a name");
  if (is_taken(parameters_) || is_taken(buffers_) || is_taken(modules_))
    fail("module: a member named {} is registered already", name);
}

Variable Module::register_parameter(std::string name, Tensor data) {
  check_new(name);
  Variable parameter(std::move(data), /*requires_grad=*/true);
  parameters_.emplace_back(std::move(name), parameter);
  return parameter;
}

Tensor& Module::register_buffer(std::string name, Tensor& tensor) {
  check_new(name);
  buffers_.emplace_back(std::move(name), &tensor);
  return tensor;
}

void Module::add_module(std::string name, std::shared_ptr<Module> module) {
  check_new(name);
  if (!module) fail("module: {} is a null pointer", name);
  if (module.get() == this) fail("module: {} would be a part of itself", name);
  modules_.emplace_back(std::move(name), std::move(module));
}

}  // namespace tandem::nn
