// ProcessGroup: the collectives of a set of ranks.
//
// Each call returns at once with a Work. Collectives of one group run one after the other, in the order of issue, which
// must be the same on all ranks; collectives of different groups do not wait for each other. Tensors must be dense, of
// one size and dtype on all ranks, lie the same way in memory, and stay untouched until their Work has ended.
//
// Kinds, in distributed/groups/: Gloo over TCP, MPI, and ranks that are threads of one process; groups that take turns,
// and one that compares what ranks are about to do.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tandem/core/tensor.h"
#include "tandem/distributed/store.h"
#include "tandem/distributed/work.h"

namespace tandem::distributed {

using core::Tensor;

/// Of booleans, max is or, min is and; sum and product are errors.
enum class ReduceOp : std::uint8_t { sum, min, max, product };

/// What was asked of a group: one value, so that groups that wrap others (that take turns, or that check) pass it on
/// whole.
struct Collective {
  enum class Kind : std::uint8_t { all_reduce, broadcast, all_gather, reduce_scatter, barrier, send, recv };

  Kind kind = Kind::barrier;
  Tensor tensor = {};           ///< all_reduce, broadcast, send, recv: the one; all_gather, reduce_scatter: the input
  Tensor output = {};           ///< all_gather, reduce_scatter
  ReduceOp op = ReduceOp::sum;  ///< all_reduce, reduce_scatter
  double scale = 1;             ///< all_reduce, reduce_scatter: of each rank's numbers, before they are reduced
  int peer = 0;                 ///< broadcast: who has it; send, recv: the other one
  std::string label = {};       ///< what it is about, for messages: "bucket 3 (conv1.weight, conv1.bias)"
};

struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  /// Multiplies each rank's numbers before they are reduced, rounded to the tensor's dtype; floating dtypes only. 1 / W
  /// gives the mean, and no sum of W numbers overflows on the way.
  double scale = 1;
  std::string label = {};
};

class ProcessGroup {
 public:
  /// `name` for messages: "gradients".
  ProcessGroup(std::string name, int rank, int size, core::Device device = core::kCpu);
  /// Collectives that have not ended fail.
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Where the tensors lie that it sends as they are. What lies elsewhere is copied there, and results are copied back
  /// by Work::wait().
  core::Device device() const { return device_; }

  // Each throws Error at once if a tensor is undefined, not dense, or does not fit. A tensor that is written is taken
  // as a handle of its own; one that is only read, by const reference.
  /// In place.
  WorkPtr all_reduce(Tensor tensor, ReduceOptions options = {});
  /// From rank `root`'s tensor into everybody else's.
  WorkPtr broadcast(Tensor tensor, int root, std::string label = {});
  /// output[r] becomes rank r's input; output has the input's shape with W in front, contiguous.
  WorkPtr all_gather(const Tensor& input, Tensor output, std::string label = {});
  /// output becomes the reduced input[rank]; input has the output's shape with W in front, contiguous, and is not kept.
  WorkPtr reduce_scatter(Tensor input, Tensor output, ReduceOptions options = {});
  /// Ends when all ranks have come to it.
  WorkPtr barrier(std::string label = {});
  // The collectives that follow wait for these two like for any other; a send may wait until it is received.
  WorkPtr send(const Tensor& tensor, int to, std::string label = {});
  WorkPtr recv(Tensor tensor, int from, std::string label = {});

  /// Another group of the same ranks, whose collectives do not wait for this one's. Collective itself: all ranks call
  /// it, in the same order. `name` is unique in the run.
  virtual std::shared_ptr<ProcessGroup> duplicate(const std::string& name) = 0;
  /// "world/ddp", "world/ddp 2", ...: names for duplicates, the same on all ranks where all ask in the same order.
  std::string next_name(const std::string& purpose);
  /// From any thread: what has been issued and what will be fails with PeerError(cause), soon. For good, and where the
  /// group has a watch on all ranks.
  virtual void abort(const std::string& cause) = 0;

  /// Issues any collective; the calls above end here once they have checked it.
  virtual WorkPtr submit(Collective collective) = 0;

 private:
  WorkPtr stage(Collective collective);

  std::string name_;
  int rank_;
  int size_;
  core::Device device_;
  std::map<std::string, int> names_given_;
};

/// "all_reduce".
const char* name(Collective::Kind kind);

/// The first byte of a tensor in its device's addresses; null if it is undefined or has no elements.
std::byte* first_byte(const Tensor& tensor);

}  // namespace tandem::distributed
