// Optimizer: what turns gradients into steps.
//
// step() is one parallel pass over all parameters (optim/segments.h), in place. Parameters whose gradient is none are
// skipped: neither momentum nor weight decay moves them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tandem/autograd/variable.h"
#include "tandem/core/state_dict.h"

namespace tandem::optim {

using autograd::Variable;
using core::StateDict;
using core::Tensor;

class Optimizer {
 public:
  /// Throws where a parameter requires no gradient or is listed twice.
  Optimizer(std::vector<Variable> parameters, double lr);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Throws where a parameter with a gradient is neither float32 nor float64, or has gaps or repeats in memory (a
  /// slice, an expanded tensor); then nothing has been changed.
  virtual void step() = 0;
  /// Gradients become none (then the next backward writes instead of adding), or zeros in place.
  void zero_grad(bool set_to_none = true);

  double lr() const { return lr_; }
  void set_lr(double lr) { lr_ = lr; }
  const std::vector<Variable>& parameters() const { return parameters_; }

  /// What must be kept between runs, by parameter: "3.momentum_buffer". Entries appear with a parameter's first step.
  /// The tensors share memory with the optimizer.
  virtual StateDict state_dict() const = 0;
  /// Throws naming the entry that is unknown or has another shape; then nothing has been changed.
  virtual void load_state_dict(const StateDict& state) = 0;

 protected:
  /// What step() throws.
  void check_parameters(const char* op) const;
  /// Splits "3.momentum_buffer" into parameter and kind, and checks the number.
  std::pair<std::size_t, std::string> parse_key(const std::string& key) const;
  /// Throws where `tensor` has not the shape of parameter `index`.
  void check_shape(const std::string& key, std::size_t index, const Tensor& tensor) const;

  std::vector<Variable> parameters_;
  double lr_;
};

}  // namespace tandem::optim
