// What a leaf offers to those who follow its gradient. Distributed data parallel is built from these four alone:
//   1. a gradient destination: the memory where the gradient is to be written;
//   2. observers of backward's beginning, told which of their leaves it will reach;
//   3. post-accumulate-grad hooks, run when the leaf's gradient is complete;
//   4. end-of-backward callbacks, queued by whoever was told of the beginning (BackwardPass::at_end in engine.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tandem/core/tensor.h"

namespace tandem::autograd {

class BackwardPass;
class Variable;

/// Called with the leaf; its grad() is complete, and no other variable's memory.
using PostAccumulateGradHook = std::function<void(const Variable& leaf)>;

/// `last`: after all hooks that are `in_order`, also those registered later. For who sends the gradient away.
enum class HookTurn : std::uint8_t { in_order, last };

/// Somebody who wants to know of each backward that reaches any of the leaves it observes.
class BackwardObserver {
 public:
  virtual ~BackwardObserver() = default;
  /// Once per backward, before its first node runs, on the thread that runs it. `reached`: those of the observed leaves
  /// that this backward will reach, none twice. `pass` lives until the backward returns. A throw ends the backward with
  /// nothing accumulated.
  virtual void backward_begins(BackwardPass& pass, std::span<const Variable> reached) = 0;
};

/// Undoes a registration when destroyed. Movable.
class [[nodiscard]] Registration {
 public:
  Registration() = default;
  explicit Registration(std::function<void()> undo) : undo_(std::move(undo)) {}
  Registration(Registration&& other) noexcept : undo_(std::exchange(other.undo_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    if (this != &other) {
      remove();
      undo_ = std::exchange(other.undo_, nullptr);
    }
    return *this;
  }
  ~Registration() { remove(); }

  void remove() {
    if (auto undo = std::exchange(undo_, nullptr)) undo();
  }

 private:
  std::function<void()> undo_;
};

/// The part of a variable that only leaves with a gradient have.
struct Leaf {
  core::Tensor destination;
  std::vector<std::shared_ptr<PostAccumulateGradHook>> hooks;  ///< as they run
  std::ptrdiff_t last_hooks = 0;                               ///< how many at the end have HookTurn::last
  std::vector<BackwardObserver*> observers;

  // Scratch of the backward that is running.
  BackwardPass* pass = nullptr;
  int pending = 0;        ///< contributions still to come
  bool received = false;  ///< whether any came
  bool lent = false;      ///< between Gradients::memory() and commit()
  core::Tensor incoming;  ///< their sum so far, if there is no destination
  core::Tensor aside;     ///< the sum of those that come while `lent`: a kernel may yet overwrite the leaf's memory
};

}  // namespace tandem::autograd
