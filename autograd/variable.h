// Variable: a tensor that can take part in differentiation.
//
// It adds to a tensor its gradient, whether one is wanted, and the node that made it. A *leaf* was made by the user (a
// parameter, an input); everything else was made by an operator (autograd/ops.h), which left a node on the tape
// (autograd/node.h). Backward runs the tape (autograd/engine.h). What others may attach to a leaf is in
// autograd/leaf.h.
#pragma once

#include <memory>

#include "tandem/autograd/leaf.h"
#include "tandem/core/tensor.h"

namespace tandem::autograd {

using core::DType;
using core::Shape;
using core::Tensor;

class Node;
struct BackwardOptions;
struct VariableState;

void dispose(Node* node);
void dispose(VariableState* state);
using NodePtr = core::IntrusivePtr<Node>;
using StatePtr = core::IntrusivePtr<VariableState>;

/// A handle; copies are the same variable.
class Variable {
 public:
  /// Undefined, for arguments that may be absent (a bias).
  Variable() = default;
  /// A leaf. Only floating dtypes may require a gradient.
  Variable(Tensor data, bool requires_grad = false);
  /// What an operator returns; `maker` knows how gradients flow back.
  Variable(Tensor data, NodePtr maker);
  explicit Variable(StatePtr state) : state_(std::move(state)) {}

  bool defined() const { return static_cast<bool>(state_); }
  const Tensor& data() const;
  /// Gives a leaf other contents (another dtype, say). Its gradient becomes none.
  void set_data(Tensor data);
  const Shape& shape() const { return data().shape(); }
  std::int64_t size(int dim) const { return data().size(dim); }
  DType dtype() const { return data().dtype(); }

  bool requires_grad() const;
  /// Leaves only. Returns *this.
  Variable& set_requires_grad(bool requires_grad);
  bool is_leaf() const;
  /// The node that made it; null for a leaf.
  const NodePtr& maker() const;

  /// What backward accumulated into this leaf; undefined ("none") before the first.
  const Tensor& grad() const;
  /// Undefined to forget it. Throws where shape or dtype differ from the variable's.
  void set_grad(Tensor grad);

  /// The same tensor, cut off from the tape.
  Variable detach() const { return Variable(data()); }

  /// Accumulates the gradient of this variable into every leaf that it depends on (autograd/engine.h).
  void backward() const;
  void backward(const BackwardOptions& options) const;

  // Facilities of leaves that require a gradient (autograd/leaf.h). Each lasts as long as the registration that is
  // returned.
  /// Runs `hook` after this leaf's gradient is complete in a backward, after the hooks registered before.
  [[nodiscard]] Registration register_post_accumulate_grad_hook(PostAccumulateGradHook hook,
                                                                HookTurn turn = HookTurn::in_order) const;
  /// From now on the gradient is written to `memory`, which has the leaf's shape and dtype and any strides but
  /// repeating ones (0). A gradient that is there already moves along with the next backward. One owner at a time;
  /// throws where one is set.
  [[nodiscard]] Registration set_gradient_destination(Tensor memory) const;
  /// Tells `observer`, which must outlive the registration, of every backward that reaches this leaf.
  [[nodiscard]] Registration observe_backward(BackwardObserver& observer) const;

  /// Same variable, not just equal values.
  bool is(const Variable& other) const { return state_ == other.state_; }
  const StatePtr& state() const { return state_; }

 private:
  VariableState& checked(const char* what) const;

  StatePtr state_;
};

/// What all handles of a variable share.
struct VariableState final : core::RefCounted {
  Tensor data;
  Tensor grad;
  NodePtr maker;               ///< null for a leaf
  std::unique_ptr<Leaf> leaf;  ///< set for a leaf that requires a gradient

  bool requires_grad() const { return leaf != nullptr || static_cast<bool>(maker); }
};

}  // namespace tandem::autograd
