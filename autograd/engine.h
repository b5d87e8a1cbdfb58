// The engine: runs the tape backwards.
//
//   discover    walk from the root along the edges; count for each node and leaf the contributions that will come
//   announce    tell each observer which of its leaves will be reached; take over gradients that the user replaced
//   run         of the nodes whose gradient is complete, always the one created last; a leaf whose last contribution
//               arrived accumulates and runs its hooks there and then
//   finish      end-of-backward callbacks, first come first served
//
// Everything happens on the calling thread. No step recurses, however deep the graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tandem/autograd/variable.h"

namespace tandem::autograd {

struct Edge;
class Gradients;
struct GradientMemory;

struct BackwardOptions {
  Tensor gradient;            ///< of the root; may be left out where the root has one element: 1
  bool retain_graph = false;  ///< keep what was saved, so that backward can run again
};

/// Accumulates d root / d leaf (times the root's gradient) into every leaf that requires one and that root depends on.
/// Throws where the root requires no gradient, where a saved tensor was changed, or where an earlier backward freed the
/// graph. After an exception gradients of reached leaves are unspecified, and the engine is ready for the next
/// backward.
void backward(const Variable& root, const BackwardOptions& options);

/// One run of backward. Observers see it.
class BackwardPass {
 public:
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  /// Queues a callback for after the last node and the last leaf. May be called from hooks and from other callbacks of
  /// this pass. Where an exception ends the pass before, or a callback throws, `if_failed` is called instead, with its
  /// message; it must not throw.
  void at_end(std::function<void()> callback, std::function<void(const std::string& cause)> if_failed = {}) {
    callbacks_.push_back({std::move(callback), std::move(if_failed)});
  }

 private:
  friend void backward(const Variable& root, const BackwardOptions& options);
  friend class Gradients;

  explicit BackwardPass(bool retain_graph) : retain_graph_(retain_graph) {}
  ~BackwardPass();

  void run(const Variable& root, Tensor gradient);
  void discover(const Edge& root);
  void count(const Edge& edge, std::vector<Node*>& unexplored);
  void announce();
  void run_nodes();
  void run_node(Node& node);
  void finish();
  void tell_failed(const std::string& cause);

  // A contribution to what lies at the far end of an edge; `gradient` may be undefined: the rule had none to give.
  void contribute(const Edge& edge, Tensor gradient);
  void contribute_to_node(Node& node, Tensor gradient);
  void contribute_to_leaf(VariableState& state, Tensor gradient);
  void one_less_pending(const Edge& edge);
  void complete_leaf(const StatePtr& state);

  struct EndOfPass {
    std::function<void()> callback;
    std::function<void(const std::string& cause)> if_failed;
  };

  bool retain_graph_;
  std::vector<Node*> nodes_;      // all that were discovered
  std::vector<StatePtr> leaves_;  // likewise
  std::vector<Node*> ready_;      // a heap, newest on top
  std::vector<EndOfPass> callbacks_;
  std::size_t finished_ = 0;  // of callbacks_
};

}  // namespace tandem::autograd
