// An operator's input, kept for backward or computed again there.
#pragma once

#include "tandem/autograd/saved_tensor.h"
#include "tandem/autograd/variable.h"

namespace tandem::autograd {

/// What saved_for() gives for a Variable (autograd/node.h). Where the operator that made the variable offered a recipe
/// (offer_recipe(), there), its node is held instead of the tensor, whose memory is then free as soon as forward has no
/// more use for it.
class SavedVariable {
 public:
  SavedVariable() = default;
  explicit SavedVariable(const Variable& variable);

  /// The tensor that forward saw, undefined where nothing was saved. A recipe runs with each call, and what it gives
  /// lies in `room`, which by default lasts as long as the call that get() is an argument of: a rule that needs the
  /// tensor twice copies the handle. Throws as SavedTensor::get() does, for a recipe where what it computes from was
  /// changed; the maker's name is then added.
  const Tensor& get(Tensor&& room = Tensor()) const;

 private:
  SavedTensor tensor_;
  NodePtr maker_;
};

}  // namespace tandem::autograd
