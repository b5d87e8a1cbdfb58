// Dropout. Source: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", 2014.
#pragma once

#include "tandem/nn/module.h"

namespace tandem::nn {

/// In training zeroes each element with probability p and scales the rest by 1 / (1 - p); in evaluation does nothing.
/// What is dropped is a function of the random context (Module::set_random_context) and of how often forward ran since
/// it was set.
class Dropout final : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Variable forward(const Variable& x) override;

  /// What forward would use now: p is 0 where it does nothing. For operators that drop on the way
  /// (autograd::dropout_add_layer_norm, autograd::attention); counts as a run of forward.
  struct Draw {
    double p = 0;
    core::PhiloxStream stream;
  };
  Draw next_draw();

  double p() const { return p_; }
  void set_p(double p);

 private:
  bool draws() const override { return true; }
  void random_context_changed(const core::RandomContext& context, std::uint32_t op) override;

  double p_ = 0;
  core::RandomContext context_;
  std::uint32_t op_ = 0;
  std::uint32_t calls_ = 0;
};

}  // namespace tandem::nn
