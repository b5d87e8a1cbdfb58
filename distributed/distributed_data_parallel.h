// DistributedDataParallel: makes W ranks, each with a copy of a module and other data, train as one.
//
//   DistributedDataParallel ddp(model, group);
//   for (...) {
//     cross_entropy(ddp.forward(input), target).backward();   // on return every gradient is the mean over all ranks
//     sgd.step();
//     sgd.zero_grad();
//   }
//
// Gradients accumulate without being sent if backward runs under no_sync():
//
//   { const auto local_only = ddp.no_sync(); loss.backward(); }
//
// A module that takes several inputs, or whose loss is computed in one go:
//
//   ddp.forward(model, tokens, mask)
//   ddp.forward([&] { return loss_of(model, batch); })
//
// How gradients are reduced is in reducer.h; why copies stay equal: they begin equal, see the same averages, and are
// changed by the same arithmetic. A gradient's memory belongs to DDP: a handle to it that is kept may be overwritten by
// the next backward, also after the gradient was set to none.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/distributed/process_group.h"
#include "tandem/distributed/reducer.h"
#include "tandem/nn/module.h"

namespace tandem::distributed {

struct DataParallelOptions {
  double bucket_cap_mb = 25;      ///< MiB of gradients that travel together; 0: each gradient alone
  double first_bucket_mb = 1;     ///< of the bucket that is reduced first; at most the cap
  bool broadcast_buffers = true;  ///< rank 0's, before the first training forward after each synced backward
  BucketOrder bucket_order = BucketOrder::reverse;
  bool overlap = true;  ///< reduce while backward computes; false: afterwards, for comparison
  /// Let a synced backward leave out parameters; which ones may differ from rank to rank and from time to time. Costs
  /// an all-reduce of a byte a parameter.
  bool find_unused_parameters = false;
  /// The parameters that the first iteration used are those that all will use. Nothing more is sent.
  bool static_graph = false;
  /// Makes the hook that this DDP owns; none: sums as they lie (comm_hook.h).
  std::function<std::unique_ptr<CommHook>()> comm_hook = {};
};

/// What the options' MiB are in bytes. Throws Error if they are not numbers >= 0.
BucketLimits limits_of(const DataParallelOptions& options);
/// What is reduced: the parameters that require a gradient, in module order.
std::vector<ReducedParameter> reduced_parameters(const nn::Module& module);

class DistributedDataParallel {
 public:
  /// Collective. Compares the modules of all ranks, then gives all of them rank 0's parameters and buffers. `module`
  /// must outlive it, and must not get, lose or replace parameters meanwhile. Communicates through a duplicate of
  /// `group`. Throws Error, on all ranks, if modules or options differ: the first parameter that does, and two ranks;
  /// if no parameter requires a gradient; or if one belongs to another DistributedDataParallel.
  DistributedDataParallel(nn::Module& module, const std::shared_ptr<ProcessGroup>& group,
                          const DataParallelOptions& options = {});

  /// Calls `compute`, which runs the module's forward in whatever way, and returns what it returns. Collective if
  /// buffers are due to be broadcast. Throws Error naming the parameter if one was added, replaced, or switched by
  /// requires_grad since construction. (Another dtype is an error at once, of Module::to.) An exception of `compute`
  /// passes, and leaves DDP as it was.
  template <std::invocable Compute>
  std::invoke_result_t<Compute> forward(Compute&& compute) {
    const ForwardPass pass(*this);
    return std::forward<Compute>(compute)();
  }
  /// The module's own forward.
  nn::Variable forward(const nn::Variable& input) {
    return forward([&] { return module_.forward(input); });
  }
  /// The same for one with several inputs, or of other types. `module` is the one that was wrapped, by its own class.
  template <std::derived_from<nn::Module> M, class... Inputs>
  auto forward(M& module, Inputs&&... inputs) {
    check_is_wrapped(module);
    return forward([&] { return module.forward(std::forward<Inputs>(inputs)...); });
  }

  /// While this lives, which must not be longer than DDP does, backwards that begin accumulate locally; where forward
  /// ran does not matter. It nests.
  class NoSync {
   public:
    NoSync(NoSync&& other) noexcept : ddp_(std::exchange(other.ddp_, nullptr)) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class DistributedDataParallel;
    explicit NoSync(DistributedDataParallel& ddp);
    DistributedDataParallel* ddp_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  /// Takes part in the others' synced backward where this rank's loss reaches none of the parameters: with zeros, and
  /// what accumulated under no_sync(). Without it they would wait for this rank until the timeout.
  void backward_without_loss() { reducer_->backward_without_loss(); }

  /// Collective. Gives all ranks rank 0's buffers now: before evaluation, before a checkpoint.
  void sync_buffers();

  nn::Module& module() { return module_; }
  const std::vector<ReducedParameter>& parameters() const { return reducer_->parameters(); }
  const Reducer& reducer() const { return *reducer_; }

 private:
  /// A forward, while this lives: what must happen before it; and after it, unless an exception ends it.
  class ForwardPass {
   public:
    explicit ForwardPass(DistributedDataParallel& ddp);
    ~ForwardPass();
    ForwardPass(const ForwardPass&) = delete;
    ForwardPass& operator=(const ForwardPass&) = delete;

   private:
    DistributedDataParallel& ddp_;
    std::int64_t begin_ns_;
    int exceptions_;
  };

  void verify(const DataParallelOptions& options, const CommHook& hook);
  void broadcast_state();
  void check_parameters() const;
  void check_is_wrapped(const nn::Module& module) const;

  nn::Module& module_;
  std::shared_ptr<ProcessGroup> group_;
  bool broadcast_buffers_;
  std::unique_ptr<Reducer> reducer_;
  int no_sync_depth_ = 0;
  std::int64_t buffers_of_ = 0;  // the iteration after which buffers were made equal
};

}  // namespace tandem::distributed
