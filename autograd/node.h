// The tape: a node for each operator that ran, with edges to where its inputs came from and the rule that sends
// gradients there.
//
// An operator computes its result and calls record(), forward and gradient on one screen:
//
//   Variable relu(const Variable& x) {
//     Tensor y = core::relu(x.data());
//     return record("relu", y, {x}, [y = SavedTensor(y)](Tensor dy, Gradients& dx) {
//       dx.add(0, core::relu_backward(std::move(dy), y.get()));
//     });
//   }
//
// A rule captures by name what it needs from forward, as SavedTensor; the capture is freed when backward has passed the
// node. An operator whose output is cheap to compute again may offer the recipe (offer_recipe()), and then others need
// not keep that output.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tandem/autograd/grad_mode.h"
#include "tandem/autograd/saved_tensor.h"
#include "tandem/autograd/saved_variable.h"
#include "tandem/autograd/variable.h"

namespace tandem::autograd {

/// Where an input of an operator came from: the node that made it, or a leaf. Neither: no gradient is wanted.
struct Edge {
  NodePtr node;
  StatePtr leaf;

  explicit operator bool() const { return node || leaf; }
  const Shape& shape() const;
  DType dtype() const;
  core::Device device() const;
};

/// Memory for a gradient that a kernel writes itself.
struct GradientMemory {
  Tensor tensor;
  bool accumulate = false;  ///< add to what is there; otherwise overwrite
  bool is_extra = false;    ///< the leaf's own is lent to another input of the operator: commit() adds this to it
};

/// What a rule is given to hand gradients over, by the position of the input. Implemented by the engine.
class Gradients {
 public:
  /// False where nobody asked for this input's gradient: skip the work.
  bool needs(int input) const;

  /// Hands over a gradient. Where the operator broadcast its input, the engine sums the gradient back to the input's
  /// shape.
  void add(int input, Tensor gradient);

  /// For kernels of parameters: the memory to compute into, which is the leaf's destination if it has one. Every
  /// memory() is followed by commit() with what it returned, once it is written. Several inputs may be one leaf: calls
  /// of add(), memory(), commit() and write() give the right sum in any order.
  GradientMemory memory(int input);
  void commit(int input, GradientMemory memory);

  /// Both in one:
  ///   dx.write(1, [&](Tensor& dw, bool accumulate) { core::linear_backward_weight(dy, x, dw, accumulate); });
  template <std::invocable<Tensor&, bool> Kernel>
  void write(int input, Kernel&& kernel) {
    if (!needs(input)) return;
    GradientMemory target = memory(input);
    kernel(target.tensor, target.accumulate);
    commit(input, std::move(target));
  }

 private:
  friend class BackwardPass;
  Gradients(BackwardPass& pass, const Node& node) : pass_(pass), node_(node) {}

  BackwardPass& pass_;
  const Node& node_;
};

class Node : public core::RefCounted {
 public:
  Node(const char* name, const Tensor& output, std::span<const Variable> inputs);
  virtual ~Node() = default;

  const char* name() const { return name_; }
  /// Grows with every node that the process makes: the order of creation.
  std::uint64_t sequence() const { return sequence_; }
  const std::vector<Edge>& inputs() const { return inputs_; }
  const Shape& output_shape() const { return output_shape_; }
  DType output_dtype() const { return output_dtype_; }
  core::Device output_device() const { return output_device_; }

  /// Sends the gradient of the output on to the inputs.
  virtual void apply(Tensor output_gradient, Gradients& gradients) = 0;
  /// Frees what the rule saved. Backward cannot pass again.
  virtual void free_saved() { recipe_.reset(); }
  virtual bool is_freed() const = 0;

  /// Behind offer_recipe() and SavedVariable. A recipe gives the output as the operator left it, so it cannot make one
  /// that was written to since.
  void set_recipe(const Tensor& output, std::function<Tensor()> compute);
  bool can_make_again(const Tensor& output) const { return recipe_ && recipe_->version == output.version(); }
  Tensor make_again() const;

 private:
  friend class BackwardPass;
  friend void dispose(Node* node);

  struct Recipe {
    std::function<Tensor()> compute;
    std::uint64_t version;  // of the output
  };

  const char* name_;
  std::uint64_t sequence_;
  std::vector<Edge> inputs_;
  Shape output_shape_;
  DType output_dtype_;
  core::Device output_device_;
  std::unique_ptr<const Recipe> recipe_;

  // Scratch of the backward that is running.
  BackwardPass* pass_ = nullptr;
  int pending_ = 0;  // contributions still to come
  Tensor incoming_;  // their sum so far
};

template <class Rule>
class RuleNode final : public Node {
 public:
  RuleNode(const char* name, const Tensor& output, std::span<const Variable> inputs, Rule rule)
      : Node(name, output, inputs), rule_(std::move(rule)) {}

  void apply(Tensor output_gradient, Gradients& gradients) override { (*rule_)(std::move(output_gradient), gradients); }
  void free_saved() override {
    Node::free_saved();
    rule_.reset();
  }
  bool is_freed() const override { return !rule_.has_value(); }

 private:
  std::optional<Rule> rule_;
};

/// Saves `tensor` where `who` will need it: where that variable's gradient is wanted.
inline SavedTensor saved_for(const Variable& who, const Tensor& tensor) {
  return who.requires_grad() ? SavedTensor(tensor) : SavedTensor();
}
/// The same of an input, which may come with a recipe.
inline SavedVariable saved_for(const Variable& who, const Variable& what) {
  return who.requires_grad() ? SavedVariable(what) : SavedVariable();
}

/// True where an operator on `inputs` must leave a node.
bool must_record(std::span<const Variable> inputs);

/// Makes the operator's result a variable, with a node on the tape where a gradient is wanted. `name` is a literal.
template <class Rule>
Variable record(const char* name, Tensor output, std::span<const Variable> inputs, Rule rule) {
  if (!must_record(inputs)) return Variable(std::move(output));
  NodePtr node(new RuleNode<Rule>(name, output, inputs, std::move(rule)));
  return Variable(std::move(output), std::move(node));
}
template <class Rule>
Variable record(const char* name, Tensor output, std::initializer_list<Variable> inputs, Rule rule) {
  return record(name, std::move(output), std::span(inputs.begin(), inputs.size()), std::move(rule));
}

/// Lets those who save `output` for backward with saved_for() compute it again there instead. `recipe` gives the bits
/// that the operator gave, from what its rule saves anyway (captured as SavedTensor, so that changes are noticed): it
/// keeps nothing alive that the rule does not. Does nothing where no node was recorded.
inline void offer_recipe(const Variable& output, std::function<Tensor()> recipe) {
  if (output.maker()) output.maker()->set_recipe(output.data(), std::move(recipe));
}

}  // namespace tandem::autograd
