#include "tandem/autograd/saved_variable.h"

#include "tandem/autograd/node.h"

namespace tandem::autograd {

SavedVariable::SavedVariable(const Variable& variable) {
  const NodePtr& maker = variable.maker();
  if (maker && maker->can_make_again(variable.data())) {
    maker_ = maker;
  } else {
    tensor_ = SavedTensor(variable.data());
  }
}

const Tensor& SavedVariable::get(Tensor&& room) const {
  if (maker_) return room = maker_->make_again();
  return tensor_.get();
}

}  // namespace tandem::autograd
