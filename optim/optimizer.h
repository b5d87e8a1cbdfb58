// Optimizer: what turns gradients into steps.
//
// An optimizer keeps groups, rates and state; step() is one call of an operator over all parameters
// (core/ops/*_step.h). Parameters whose gradient is none are skipped: neither momentum nor weight decay moves them.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tandem/autograd/variable.h"
#include "tandem/core/ops/segment.h"
#include "tandem/core/recorder.h"
#include "tandem/core/state_dict.h"
#include "tandem/optim/parameter_group.h"

namespace tandem::optim {

using core::StateDict;
using core::Tensor;

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Throws where a parameter with a gradient is neither float32 nor float64, or has gaps or repeats in memory (a
  /// slice, an expanded tensor); then nothing has been changed.
  virtual void step() = 0;
  /// Gradients become none (then the next backward writes instead of adding), or zeros in place.
  void zero_grad(bool set_to_none = true);

  /// What all groups' rates are multiples of.
  double lr() const { return lr_; }
  /// Throws Error if it is not a number >= 0.
  void set_lr(double lr);
  /// Of all groups, one behind the other.
  const std::vector<Variable>& parameters() const { return parameters_; }

  /// What must be kept between runs, by parameter: "3.momentum_buffer" belongs to parameters()[3]. Entries appear with
  /// a parameter's first step. The tensors share memory with the optimizer.
  StateDict state_dict() const;
  /// Throws naming the entry that is unknown or has another shape, or the parameter of which some are missing; then
  /// nothing has been changed.
  void load_state_dict(const StateDict& state);
  /// The tensors that are remembered of each parameter, shaped as it: "exp_avg", "exp_avg_sq".
  const std::vector<const char*>& state_kinds() const { return rule_.state_kinds; }

 protected:
  /// How an update rule differs from others, as far as what they share goes.
  struct Rule {
    const char* name;  ///< for messages; a literal, as are all here
    std::vector<const char*> state_kinds = {};
    bool counts_steps = false;  ///< remembers, as "step", how often each parameter has moved
  };

  /// Throws Error if a parameter requires no gradient or is listed twice, or a rate, factor or decay is not a number
  /// >= 0.
  Optimizer(Rule rule, std::vector<ParameterGroup> groups, double lr, double weight_decay);
  static std::vector<ParameterGroup> one_group(std::vector<Variable> parameters);

  /// What a step's operator takes: a segment for each parameter that has a gradient, with its rate, its decay, and the
  /// first `states` kinds of state, which begin with zeros. Before these are made, fill(index, segment) says the rest.
  /// Throws what step() throws.
  template <class S, class Fill>
  std::vector<S> make_segments(std::size_t states, Fill&& fill) {
    check_parameters();
    std::vector<S> segments;
    segments.reserve(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].grad().defined()) continue;
      S& segment = segments.emplace_back();
      fill(i, segment);
      prepare(i, states, segment);
    }
    return segments;
  }

  struct Treatment {
    double weight_decay = 0, lr_factor = 1;
    bool adapt = true;
  };
  struct State {
    std::array<Tensor, 2> tensors;  ///< by kind; undefined before the parameter's first step
    std::int64_t steps = 0;
  };

  std::vector<Variable> parameters_;
  std::vector<Treatment> treatments_;  ///< one for each parameter
  std::vector<State> states_;          ///< one for each parameter
  double lr_ = 0;

 private:
  void check_parameters() const;
  void prepare(std::size_t index, std::size_t states, core::Segment& segment);
  std::pair<std::size_t, std::string> parse_key(const std::string& key) const;
  void load_entry(const std::string& key, const Tensor& tensor, std::vector<State>& loaded) const;
  /// "exp_avg, exp_avg_sq and step".
  std::string list_entries() const;

  Rule rule_;
};

}  // namespace tandem::optim
