#include "tandem/optim/optimizer.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "tandem/optim/checks.h"

namespace tandem::optim {
namespace {

using core::fail;

constexpr const char* kStep = "step";
constexpr double kMostSteps = 1e15;  // all whole numbers up to it are doubles

// Brings a gradient or optimizer state into the layout of its parameter. It has another one only in odd cases: a
// gradient with gaps, or Variable::set_data gave the parameter another layout or dtype.
void lay_out_as(const Tensor& parameter, Tensor& tensor) {
  const bool is_alike = tensor.shape() == parameter.shape() && tensor.strides() == parameter.strides();
  if (tensor.dtype() == parameter.dtype() && (is_alike || tensor.has_layout_of(parameter))) return;
  tensor = Tensor::empty_like(parameter).copy_from(tensor);
}

}  // namespace

Optimizer::Optimizer(Rule rule, std::vector<ParameterGroup> groups, double lr, double weight_decay)
    : rule_(std::move(rule)) {
  set_lr(lr);
  check_not_negative(rule_.name, "weight decay", weight_decay);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const ParameterGroup& group = groups[g];
    const std::string whose = fmt::format("{}: group {}", rule_.name, g);
    check_not_negative(whose, "learning-rate factor", group.lr_factor);
    check_not_negative(whose, "weight decay", group.weight_decay.value_or(0));
    const Treatment treatment{
        .weight_decay = group.weight_decay.value_or(weight_decay), .lr_factor = group.lr_factor, .adapt = group.adapt};
    parameters_.insert(parameters_.end(), group.parameters.begin(), group.parameters.end());
    treatments_.resize(parameters_.size(), treatment);
  }
  states_.resize(parameters_.size());
  std::set<const void*> seen;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].requires_grad() || !parameters_[i].is_leaf())
      fail("optimizer: parameter {} is not a leaf that requires a gradient", i);
    if (!seen.insert(parameters_[i].state().get()).second)
      fail("optimizer: parameter {} of shape {} is listed twice", i, parameters_[i].shape().str());
  }
}

void Optimizer::set_lr(double lr) {
  check_not_negative(rule_.name, "learning rate", lr);
  lr_ = lr;
}

std::vector<ParameterGroup> Optimizer::one_group(std::vector<Variable> parameters) {
  std::vector<ParameterGroup> groups(1);
  groups[0].parameters = std::move(parameters);
  return groups;
}

void Optimizer::zero_grad(bool set_to_none) {
  for (Variable& parameter : parameters_) {
    if (set_to_none) {
      parameter.set_grad({});
    } else if (parameter.grad().defined()) {
      Tensor(parameter.grad()).fill(0);
    }
  }
}

void Optimizer::check_parameters() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& data = parameters_[i].data();
    if (!parameters_[i].grad().defined()) continue;
    if (data.dtype() != core::DType::float32 && data.dtype() != core::DType::float64)
      fail("{}: parameter {} of shape {} is {}, only float32 and float64 can be trained", rule_.name, i,
           data.shape().str(), name(data.dtype()));
    if (!data.is_dense())
      fail("{}: parameter {} of shape {} has strides {}, with gaps or repeats; make it of a clone()", rule_.name, i,
           data.shape().str(), data.strides().str());
  }
}

void Optimizer::prepare(std::size_t index, std::size_t states, core::Segment& segment) {
  segment.lr = lr_ * treatments_[index].lr_factor;
  segment.weight_decay = treatments_[index].weight_decay;
  const Tensor& parameter = segment.parameter = parameters_[index].data();
  segment.gradient = parameters_[index].grad();
  lay_out_as(parameter, segment.gradient);
  for (std::size_t k = 0; k < states; ++k) {
    Tensor& state = states_[index].tensors[k];
    state.defined() ? lay_out_as(parameter, state) : static_cast<void>(state = Tensor::zeros_like(parameter));
    segment.state[k] = state;
  }
}

StateDict Optimizer::state_dict() const {
  StateDict state;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto add = [&](const char* kind, Tensor tensor) {
      state.emplace_back(std::to_string(i) + "." + kind, std::move(tensor));
    };
    for (std::size_t k = 0; k < rule_.state_kinds.size(); ++k)
      if (states_[i].tensors[k].defined()) add(rule_.state_kinds[k], states_[i].tensors[k]);
    if (states_[i].steps > 0) add(kStep, Tensor::scalar(static_cast<double>(states_[i].steps), core::DType::int64));
  }
  return state;
}

void Optimizer::load_state_dict(const StateDict& state) {
  std::vector<State> loaded(parameters_.size());
  for (const auto& [key, tensor] : state) load_entry(key, tensor, loaded);
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    std::size_t given = loaded[i].steps > 0;
    for (const Tensor& tensor : loaded[i].tensors) given += tensor.defined();
    if (given != 0 && given != rule_.state_kinds.size() + rule_.counts_steps)
      fail("{}: the state of parameter {} is incomplete: {} belong together", rule_.name, i, list_entries());
  }
  states_ = std::move(loaded);
}

void Optimizer::load_entry(const std::string& key, const Tensor& tensor, std::vector<State>& loaded) const {
  const auto [index, kind] = parse_key(key);
  if (rule_.counts_steps && kind == kStep) {
    const double steps = tensor.item();
    if (!(steps >= 1 && steps <= kMostSteps)) fail("{}: '{}' is {}, needed a number of steps", rule_.name, key, steps);
    loaded[index].steps = static_cast<std::int64_t>(steps);
    return;
  }
  const auto& kinds = rule_.state_kinds;
  const auto place = std::find(kinds.begin(), kinds.end(), kind) - kinds.begin();
  if (place == std::ssize(kinds))
    fail("{}: '{}' is not part of its state, which has {}", rule_.name, key, list_entries());
  const Tensor& parameter = parameters_[index].data();
  if (tensor.shape() != parameter.shape())
    fail("optimizer: '{}' has shape {}, its parameter {}; a state fits the order of parameters that it was saved with",
         key, tensor.shape().str(), parameter.shape().str());
  loaded[index].tensors[static_cast<std::size_t>(place)] = Tensor::empty_like(parameter).copy_from(tensor);
}

std::pair<std::size_t, std::string> Optimizer::parse_key(const std::string& key) const {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || *end != '.') fail("optimizer: '{}' is not an entry of the form 3.momentum_buffer", key);
  if (index >= parameters_.size()) fail("optimizer: '{}' is for parameter {} of {}", key, index, parameters_.size());
  return {index, std::string(end + 1, key.data() + key.size())};
}

std::string Optimizer::list_entries() const {
  std::vector<const char*> entries = rule_.state_kinds;
  if (rule_.counts_steps) entries.push_back(kStep);
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) text += i + 1 < entries.size() ? ", " : " and ";
    text += entries[i];
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace tandem::optim
