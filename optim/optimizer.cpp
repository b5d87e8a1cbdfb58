#include "tandem/optim/optimizer.h"

#include <charconv>
#include <set>

namespace tandem::optim {

using core::fail;

Optimizer::Optimizer(std::vector<Variable> parameters, double lr) : parameters_(std::move(parameters)), lr_(lr) {
  std::set<const void*> seen;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].requires_grad() || !parameters_[i].is_leaf())
      fail("optimizer: parameter {} is not a leaf that requires a gradient", i);
    if (!seen.insert(parameters_[i].state().get()).second)
      fail("optimizer: parameter {} of shape {} is listed twice", i, parameters_[i].shape().str());
  }
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

void Optimizer::check_parameters(const char* op) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& data = parameters_[i].data();
    if (!parameters_[i].grad().defined()) continue;
    if (data.dtype() != core::DType::float32 && data.dtype() != core::DType::float64)
      fail("{}: parameter {} of shape {} is {}, only float32 and float64 can be trained", op, i, data.shape().str(),
           name(data.dtype()));
    if (!data.is_dense())
      fail("{}: parameter {} of shape {} has strides {}, with gaps or repeats; make it of a clone()", op, i,
           data.shape().str(), data.strides().str());
  }
}

std::pair<std::size_t, std::string> Optimizer::parse_key(const std::string& key) const {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || *end != '.') fail("optimizer: '{}' is not an entry of the form 3.momentum_buffer", key);
  if (index >= parameters_.size()) fail("optimizer: '{}' is for parameter {} of {}", key, index, parameters_.size());
  return {index, std::string(end + 1, key.data() + key.size())};
}

void Optimizer::check_shape(const std::string& key, std::size_t index, const Tensor& tensor) const {
  if (tensor.shape() != parameters_[index].shape())
    fail("optimizer: '{}' has shape {}, its parameter {}", key, tensor.shape().str(), parameters_[index].shape().str());
}

}  // namespace tandem::optim
