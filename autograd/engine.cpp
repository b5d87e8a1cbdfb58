#include "tandem/autograd/engine.h"

#include <algorithm>
#include <utility>

#include "tandem/autograd/node.h"
#include "tandem/core/ops/binary.h"
#include "tandem/core/ops/reduce.h"
#include "tandem/core/recorder.h"
#include "tandem/core/traffic.h"

namespace tandem::autograd {
namespace {

bool created_earlier(const Node* a, const Node* b) { return a->sequence() < b->sequence(); }

// A gradient that nobody else holds and that lies as its leaf does may become the leaf's own.
bool may_be_kept(const Tensor& gradient, const Tensor& leaf_data) {
  return gradient.is_unique() && gradient.has_layout_of(leaf_data) && gradient.is_dense();
}

// Adds to a sum of gradients that is to become the leaf's own, or begins it.
void sum_up(Tensor& sum, Tensor gradient, const Tensor& leaf_data) {
  if (sum.defined()) {
    core::accumulate(sum, gradient);
  } else if (may_be_kept(gradient, leaf_data)) {
    sum = std::move(gradient);
  } else {
    sum = Tensor::empty_like(leaf_data);
    sum.copy_from(gradient);
  }
}

// A gradient lies elsewhere than in the leaf's destination where the user replaced it, or where the destination is new.
void move_to_destination(VariableState& state) {
  Tensor& destination = state.leaf->destination;
  if (!destination.defined() || !state.grad.defined() || state.grad.is_same_view(destination)) return;
  destination.copy_from(state.grad);
  core::traffic.copied += static_cast<std::int64_t>(destination.bytes());
  state.grad = destination;
}

}  // namespace

void backward(const Variable& root, const BackwardOptions& options) {
  if (!root.requires_grad()) core::fail("backward: the variable depends on nothing that requires a gradient");
  Tensor gradient = options.gradient;
  if (!gradient.defined()) {
    if (root.data().numel() != 1)
      core::fail("backward: a root of shape {} needs a gradient to start from, only one element does not",
                 root.shape().str());
    gradient = Tensor::full(root.shape(), 1, root.data().options());
  }
  if (gradient.shape() != root.shape() || gradient.dtype() != root.dtype())
    core::fail("backward: gradient {} {} for a root {} {}", name(gradient.dtype()), gradient.shape().str(),
               name(root.dtype()), root.shape().str());
  const core::RecordScope scope("backward", "phase");
  const Variable keep_alive = root;  // a hook may drop the caller's handle
  BackwardPass(options.retain_graph).run(keep_alive, std::move(gradient));
}

void BackwardPass::run(const Variable& root, Tensor gradient) {
  const Edge edge = root.is_leaf() ? Edge{{}, root.state()} : Edge{root.maker(), {}};
  discover(edge);
  try {
    announce();
    contribute(edge, std::move(gradient));
    one_less_pending(edge);
    run_nodes();
    finish();
  } catch (const std::exception& error) {
    tell_failed(error.what());
    throw;
  } catch (...) {
    tell_failed("an exception of unknown type");
    throw;
  }
}

void BackwardPass::tell_failed(const std::string& cause) {
  for (std::size_t i = finished_; i < callbacks_.size(); ++i)
    if (callbacks_[i].if_failed) callbacks_[i].if_failed(cause);
}

BackwardPass::~BackwardPass() {
  for (Node* node : nodes_) {
    node->pass_ = nullptr;
    node->pending_ = 0;
    node->incoming_ = {};
  }
  for (const StatePtr& state : leaves_) {
    if (!state->leaf) continue;  // a hook may have switched requires_grad off
    state->leaf->pass = nullptr;
    state->leaf->pending = 0;
    state->leaf->incoming = {};
    state->leaf->aside = {};
  }
}

void BackwardPass::discover(const Edge& root) {
  std::vector<Node*> unexplored;
  count(root, unexplored);
  while (!unexplored.empty()) {
    Node* node = unexplored.back();
    unexplored.pop_back();
    for (const Edge& edge : node->inputs()) count(edge, unexplored);
  }
}

void BackwardPass::count(const Edge& edge, std::vector<Node*>& unexplored) {
  if (edge.node) {
    Node& node = *edge.node;
    if (node.pass_ == nullptr) {
      if (node.is_freed())
        core::fail(
            "backward: the graph was freed by an earlier backward (at {}); pass retain_graph to go through it again",
            node.name());
      node.pass_ = this;
      nodes_.push_back(&node);
      unexplored.push_back(&node);
    } else if (node.pass_ != this) {
      core::fail("backward: another backward is running through {}", node.name());
    }
    ++node.pending_;
  } else if (edge.leaf) {
    if (!edge.leaf->leaf) return;  // requires_grad was switched off after forward
    Leaf& leaf = *edge.leaf->leaf;
    if (leaf.pass == nullptr) {
      leaf.pass = this;
      leaf.received = leaf.lent = false;
      leaves_.push_back(edge.leaf);
    } else if (leaf.pass != this) {
      core::fail("backward: another backward is running to the leaf of shape {}", edge.leaf->data.shape().str());
    }
    ++leaf.pending;
  }
}

void BackwardPass::announce() {
  std::vector<std::pair<BackwardObserver*, std::vector<Variable>>> audience;
  for (const StatePtr& state : leaves_) {
    for (BackwardObserver* observer : state->leaf->observers) {
      auto it =
          std::find_if(audience.begin(), audience.end(), [&](const auto& entry) { return entry.first == observer; });
      if (it == audience.end()) it = audience.insert(it, {observer, {}});
      it->second.emplace_back(state);
    }
  }
  for (auto& [observer, reached] : audience) observer->backward_begins(*this, reached);
  for (const StatePtr& state : leaves_) move_to_destination(*state);
}

void BackwardPass::run_nodes() {
  while (!ready_.empty()) {
    std::pop_heap(ready_.begin(), ready_.end(), created_earlier);
    Node* node = ready_.back();
    ready_.pop_back();
    run_node(*node);
  }
}

void BackwardPass::run_node(Node& node) {
  if (node.incoming_.defined()) {  // else nothing was contributed, and nothing is passed on
    const core::RecordScope scope(node.name(), "backward");
    Gradients gradients(*this, node);
    try {
      node.apply(std::move(node.incoming_), gradients);
    } catch (const core::Error& error) {
      core::fail("backward of {}: {}", node.name(), error.what());
    }
    node.incoming_ = {};
  }
  if (!retain_graph_) node.free_saved();
  for (const Edge& edge : node.inputs()) one_less_pending(edge);
}

void BackwardPass::finish() {
  for (; finished_ < callbacks_.size(); ++finished_) {  // grows while it runs
    const auto callback = std::move(callbacks_[finished_].callback);
    callback();
  }
}

void BackwardPass::contribute(const Edge& edge, Tensor gradient) {
  if (!edge || !gradient.defined()) return;
  if (gradient.dtype() != edge.dtype())
    core::fail("the rule gave a {} gradient for a {} input", name(gradient.dtype()), name(edge.dtype()));
  if (gradient.shape() != edge.shape()) gradient = core::sum_to(gradient, edge.shape());  // undoes broadcasting
  if (edge.node) {
    contribute_to_node(*edge.node, std::move(gradient));
  } else if (edge.leaf->leaf) {
    contribute_to_leaf(*edge.leaf, std::move(gradient));
  }
}

void BackwardPass::contribute_to_node(Node& node, Tensor gradient) {
  if (!node.incoming_.defined()) {
    node.incoming_ = std::move(gradient);
  } else if (node.incoming_.is_unique() && node.incoming_.is_dense()) {
    core::accumulate(node.incoming_, gradient);
  } else {
    node.incoming_ = core::add(node.incoming_, gradient);
  }
}

void BackwardPass::contribute_to_leaf(VariableState& state, Tensor gradient) {
  Leaf& leaf = *state.leaf;
  leaf.received = true;
  if (leaf.lent) return sum_up(leaf.aside, std::move(gradient), state.data);
  move_to_destination(state);
  if (leaf.destination.defined()) {
    if (state.grad.defined()) {
      core::accumulate(leaf.destination, gradient);
    } else {
      leaf.destination.copy_from(gradient);
      core::traffic.copied += static_cast<std::int64_t>(gradient.bytes());
      state.grad = leaf.destination;
    }
  } else {
    sum_up(leaf.incoming, std::move(gradient), state.data);
  }
}

void BackwardPass::one_less_pending(const Edge& edge) {
  if (edge.node) {
    if (--edge.node->pending_ > 0) return;
    ready_.push_back(edge.node.get());
    std::push_heap(ready_.begin(), ready_.end(), created_earlier);
  } else if (edge.leaf && edge.leaf->leaf && edge.leaf->leaf->pass == this) {
    if (--edge.leaf->leaf->pending == 0) complete_leaf(edge.leaf);
  }
}

void BackwardPass::complete_leaf(const StatePtr& state) {
  Leaf& leaf = *state->leaf;
  if (leaf.lent)
    core::fail("backward: a rule asked for memory() of the leaf of shape {} and did not commit() it",
               state->data.shape().str());
  if (!leaf.received) return;
  if (leaf.incoming.defined()) {
    if (state->grad.defined()) {
      core::accumulate(state->grad, leaf.incoming);
    } else {
      state->grad = std::move(leaf.incoming);
    }
    leaf.incoming = {};
  }
  move_to_destination(*state);
  if (leaf.hooks.empty()) return;
  const auto hooks = leaf.hooks;  // a hook may register or remove hooks
  for (const auto& hook : hooks) (*hook)(Variable(state));
}

bool Gradients::needs(int input) const {
  const Edge& edge = node_.inputs()[static_cast<std::size_t>(input)];
  return edge.node || (edge.leaf && edge.leaf->leaf);
}

void Gradients::add(int input, Tensor gradient) {
  pass_.contribute(node_.inputs()[static_cast<std::size_t>(input)], std::move(gradient));
}

GradientMemory Gradients::memory(int input) {
  const Edge& edge = node_.inputs()[static_cast<std::size_t>(input)];
  if (!needs(input)) return {};
  if (edge.leaf) {
    Leaf& leaf = *edge.leaf->leaf;
    if (std::exchange(leaf.lent, true)) return {Tensor::empty_like(edge.leaf->data), false, true};
    move_to_destination(*edge.leaf);
    if (leaf.destination.defined()) return {leaf.destination, edge.leaf->grad.defined()};
    if (leaf.incoming.defined()) return {leaf.incoming, true};
    return {Tensor::empty_like(edge.leaf->data), false};
  }
  return {Tensor::empty(edge.shape(), {.dtype = edge.dtype(), .device = edge.device()}), false};
}

void Gradients::commit(int input, GradientMemory memory) {
  if (!memory.tensor.defined()) return;
  const Edge& edge = node_.inputs()[static_cast<std::size_t>(input)];
  if (edge.node || memory.is_extra) {
    pass_.contribute(edge, std::move(memory.tensor));
    return;
  }
  Leaf& leaf = *edge.leaf->leaf;
  leaf.lent = false;
  if (leaf.destination.defined()) {
    edge.leaf->grad = leaf.destination;
  } else if (!leaf.incoming.defined()) {
    leaf.incoming = std::move(memory.tensor);
  }
  leaf.received = true;
  if (leaf.aside.defined()) pass_.contribute_to_leaf(*edge.leaf, std::exchange(leaf.aside, Tensor()));
}

}  // namespace tandem::autograd
