#include "tandem/autograd/variable.h"

#include <algorithm>

#include "tandem/autograd/engine.h"
#include "tandem/autograd/node.h"
#include "tandem/core/ops/broadcast.h"

namespace tandem::autograd {
namespace {

const Tensor kNone = Tensor();
const NodePtr kNoNode = NodePtr();

Leaf& leaf_of(const StatePtr& state, const char* what) {
  if (!state || !state->leaf) core::fail("{}: needs a leaf that requires a gradient", what);
  return *state->leaf;
}

}  // namespace

void dispose(VariableState* state) { delete state; }

Variable::Variable(Tensor data, bool requires_grad) : state_(new VariableState) {
  state_->data = std::move(data);
  if (requires_grad) set_requires_grad(true);
}

Variable::Variable(Tensor data, NodePtr maker) : state_(new VariableState) {
  state_->data = std::move(data);
  state_->maker = std::move(maker);
}

VariableState& Variable::checked(const char* what) const {
  if (!state_) core::fail("{}: the variable is undefined", what);
  return *state_;
}

const Tensor& Variable::data() const { return checked("data").data; }

void Variable::set_data(Tensor data) {
  VariableState& state = checked("set_data");
  if (!is_leaf())
    core::fail("set_data: the variable was made by {}, only a leaf can be given other contents", maker()->name());
  if (!data.defined()) core::fail("set_data: the new contents are undefined");
  if (state.leaf && !core::is_floating(data.dtype()))
    core::fail("set_data: {} has no gradient, which this leaf requires", name(data.dtype()));
  if (state.leaf && state.leaf->destination.defined() &&
      (data.shape() != state.data.shape() || data.dtype() != state.data.dtype()))
    core::fail("set_data: a gradient destination of {} {} is attached, new contents are {} {}",
               name(state.data.dtype()), state.data.shape().str(), name(data.dtype()), data.shape().str());
  state.grad = {};
  state.data = std::move(data);
}

bool Variable::requires_grad() const { return state_ && state_->requires_grad(); }

Variable& Variable::set_requires_grad(bool requires_grad) {
  VariableState& state = checked("set_requires_grad");
  if (state.maker) core::fail("set_requires_grad: the variable was made by {}, use detach()", state.maker->name());
  if (requires_grad && !core::is_floating(state.data.dtype()))
    core::fail("set_requires_grad: {} has no gradient, only floating dtypes do", name(state.data.dtype()));
  if (requires_grad && !state.leaf) state.leaf = std::make_unique<Leaf>();
  if (!requires_grad) {
    if (state.leaf &&
        (state.leaf->destination.defined() || !state.leaf->hooks.empty() || !state.leaf->observers.empty()))
      core::fail("set_requires_grad: something is still registered on this leaf of shape {}", state.data.shape().str());
    state.leaf.reset();
  }
  return *this;
}

bool Variable::is_leaf() const { return !state_ || !state_->maker; }
const NodePtr& Variable::maker() const { return state_ ? state_->maker : kNoNode; }
const Tensor& Variable::grad() const { return state_ ? state_->grad : kNone; }

void Variable::set_grad(Tensor grad) {
  VariableState& state = checked("set_grad");
  if (grad.defined() && (grad.shape() != state.data.shape() || grad.dtype() != state.data.dtype()))
    core::fail("set_grad: gradient {} {} for a variable {} {}", name(grad.dtype()), grad.shape().str(),
               name(state.data.dtype()), state.data.shape().str());
  state.grad = std::move(grad);
}

void Variable::backward() const { autograd::backward(*this, {}); }
void Variable::backward(const BackwardOptions& options) const { autograd::backward(*this, options); }

Registration Variable::register_post_accumulate_grad_hook(PostAccumulateGradHook hook, HookTurn turn) const {
  Leaf& leaf = leaf_of(state_, "register_post_accumulate_grad_hook");
  if (!hook) core::fail("register_post_accumulate_grad_hook: the hook is empty");
  auto entry = std::make_shared<PostAccumulateGradHook>(std::move(hook));
  const std::ptrdiff_t is_last = turn == HookTurn::last;
  leaf.hooks.insert(is_last ? leaf.hooks.end() : leaf.hooks.end() - leaf.last_hooks, entry);
  leaf.last_hooks += is_last;
  return Registration([state = state_, entry, is_last] {
    std::erase(state->leaf->hooks, entry);
    state->leaf->last_hooks -= is_last;
  });
}

Registration Variable::set_gradient_destination(Tensor memory) const {
  Leaf& leaf = leaf_of(state_, "set_gradient_destination");
  if (leaf.destination.defined())
    core::fail("set_gradient_destination: the leaf of shape {} already has one", state_->data.shape().str());
  if (memory.shape() != state_->data.shape() || memory.dtype() != state_->data.dtype())
    core::fail("set_gradient_destination: memory {} {} for a leaf {} {}", name(memory.dtype()), memory.shape().str(),
               name(state_->data.dtype()), state_->data.shape().str());
  core::check_no_repeats("set_gradient_destination", memory);
  leaf.destination = std::move(memory);
  return Registration([state = state_] { state->leaf->destination = {}; });
}

Registration Variable::observe_backward(BackwardObserver& observer) const {
  Leaf& leaf = leaf_of(state_, "observe_backward");
  if (std::find(leaf.observers.begin(), leaf.observers.end(), &observer) != leaf.observers.end())
    core::fail("observe_backward: this observer already watches the leaf of shape {}", state_->data.shape().str());
  leaf.observers.push_back(&observer);
  return Registration([state = state_, &observer] { std::erase(state->leaf->observers, &observer); });
}

}  // namespace tandem::autograd
