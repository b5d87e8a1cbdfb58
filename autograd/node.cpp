#include "tandem/autograd/node.h"

#include <atomic>

#include "tandem/core/recorder.h"

namespace tandem::autograd {
namespace {
std::atomic<std::uint64_t> nodes_made{0};
}

const Shape& Edge::shape() const { return node ? node->output_shape() : leaf->data.shape(); }
DType Edge::dtype() const { return node ? node->output_dtype() : leaf->data.dtype(); }
core::Device Edge::device() const { return node ? node->output_device() : leaf->data.device(); }

Node::Node(const char* name, const Tensor& output, std::span<const Variable> inputs)
    : name_(name),
      sequence_(nodes_made.fetch_add(1, std::memory_order_relaxed)),
      output_shape_(output.shape()),
      output_dtype_(output.dtype()),
      output_device_(output.device()) {
  inputs_.reserve(inputs.size());
  for (const Variable& input : inputs) {
    if (!input.requires_grad()) {
      inputs_.emplace_back();
    } else if (input.is_leaf()) {
      inputs_.push_back({.node = {}, .leaf = input.state()});
    } else {
      inputs_.push_back({.node = input.maker(), .leaf = {}});
    }
  }
}

void Node::set_recipe(const Tensor& output, std::function<Tensor()> compute) {
  recipe_ = std::make_unique<const Recipe>(Recipe{.compute = std::move(compute), .version = output.version()});
}

// Backward passes a node after all that used its output, and refuses to begin where it was passed before: who asks
// finds the recipe still there.
Tensor Node::make_again() const {
  const core::RecordScope scope(name_, "recompute");
  try {
    return recipe_->compute();
  } catch (const core::Error& error) {
    core::fail("computing {} again: {}", name_, error.what());
  }
}

bool must_record(std::span<const Variable> inputs) {
  if (!grad_enabled()) return false;
  for (const Variable& input : inputs)
    if (input.requires_grad()) return true;
  return false;
}

// A node owns the nodes before it. Destroying a chain of a million must not recurse a million deep, so nodes that lose
// their last owner while another is being destroyed wait in a list.
void dispose(Node* node) {
  thread_local std::vector<Node*>* waiting = nullptr;
  if (waiting != nullptr) {
    waiting->push_back(node);
    return;
  }
  std::vector<Node*> list{node};
  waiting = &list;
  while (!list.empty()) {
    Node* next = list.back();
    list.pop_back();
    delete next;
  }
  waiting = nullptr;
}

}  // namespace tandem::autograd
