#include "tandem/distributed/distributed_data_parallel.h"

#include <cmath>
#include <exception>

#include "tandem/core/recorder.h"
#include "tandem/distributed/agreement.h"
#include "tandem/distributed/broadcast_coalesced.h"

namespace tandem::distributed {
namespace {

std::shared_ptr<ProcessGroup> duplicate_of(const std::shared_ptr<ProcessGroup>& group) {
  if (!group) core::fail("DistributedDataParallel: the group is null");
  return group->duplicate(group->next_name("ddp"));
}

std::unique_ptr<CommHook> make_hook(const DataParallelOptions& options) {
  if (!options.comm_hook) return std::make_unique<AllReduceHook>();
  std::unique_ptr<CommHook> hook = options.comm_hook();
  if (!hook) core::fail("DistributedDataParallel: comm_hook made no hook");
  return hook;
}

UnusedMode unused_mode(const DataParallelOptions& options) {
  if (options.static_graph) return UnusedMode::as_at_first;
  return options.find_unused_parameters ? UnusedMode::found : UnusedMode::forbidden;
}

ReducerOptions reducer_options(const DataParallelOptions& options) {
  return {.limits = limits_of(options),
          .order = options.bucket_order,
          .overlap = options.overlap,
          .unused = unused_mode(options)};
}

/// What must be the same on all ranks.
std::string describe(const DataParallelOptions& options, const CommHook& hook) {
  return fmt::format(
      "bucket_cap_mb {}, first_bucket_mb {}, broadcast_buffers {}, bucket_order {}, overlap {}, find_unused_parameters "
      "{}, static_graph {}, comm_hook {}",
      options.bucket_cap_mb, options.first_bucket_mb, options.broadcast_buffers,
      options.bucket_order == BucketOrder::observed ? "observed" : "reverse", options.overlap,
      options.find_unused_parameters, options.static_graph, hook.name());
}

std::string describe(const char* what, const std::string& name, const Tensor& tensor) {
  return fmt::format("{} {}: {} {}", what, name, core::name(tensor.dtype()), tensor.shape().str());
}

}  // namespace

BucketLimits limits_of(const DataParallelOptions& options) {
  const auto bytes = [](const char* name, double megabytes) {
    if (!(megabytes >= 0 && std::isfinite(megabytes)))
      core::fail("DistributedDataParallel: {} is {}, needed a number, at least 0", name, megabytes);
    return static_cast<std::size_t>(std::min(megabytes, 1e9) * (1 << 20));
  };
  return {.cap = bytes("bucket_cap_mb", options.bucket_cap_mb),
          .first = bytes("first_bucket_mb", options.first_bucket_mb)};
}

std::vector<ReducedParameter> reduced_parameters(const nn::Module& module) {
  std::vector<ReducedParameter> reduced;
  for (const auto& [name, variable] : module.named_parameters())
    if (variable.requires_grad()) reduced.push_back({name, variable});
  return reduced;
}

DistributedDataParallel::DistributedDataParallel(nn::Module& module, const std::shared_ptr<ProcessGroup>& group,
                                                 const DataParallelOptions& options)
    : module_(module), group_(duplicate_of(group)), broadcast_buffers_(options.broadcast_buffers) {
  std::unique_ptr<CommHook> hook = make_hook(options);
  verify(options, *hook);
  broadcast_state();
  std::vector<ReducedParameter> reduced = reduced_parameters(module);
  if (reduced.empty()) core::fail("DistributedDataParallel: no parameter of the module requires a gradient");
  reducer_ = std::make_unique<Reducer>(std::move(reduced), group_, reducer_options(options), std::move(hook));
}

void DistributedDataParallel::verify(const DataParallelOptions& options, const CommHook& hook) {
  std::vector<std::string> lines;
  for (const auto& [name, variable] : module_.named_parameters()) {
    const Tensor& data = variable.data();
    lines.push_back(describe("parameter", name, data) + (variable.requires_grad() ? "" : ", requires no gradient") +
                    fmt::format(", strides {}", data.strides().str()));
  }
  for (const auto& [name, tensor] : module_.named_buffers()) lines.push_back(describe("buffer", name, *tensor));
  lines.push_back(describe(options, hook));
  verify_agreement(*group_, "DistributedDataParallel: the ranks' modules", lines);
}

void DistributedDataParallel::broadcast_state() {
  std::vector<Tensor> mine;
  const std::vector<nn::NamedParameter> named = module_.named_parameters();
  for (const auto& [name, variable] : named) mine.push_back(variable.data());
  const std::vector<Tensor> received = broadcast_coalesced(*group_, mine, 0, "initial parameters");
  if (group_->rank() != 0)
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i].copy_from(received[i]);
  sync_buffers();
}

void DistributedDataParallel::sync_buffers() {
  std::vector<nn::NamedBuffer> buffers = module_.named_buffers();
  std::vector<Tensor> mine;
  for (const nn::NamedBuffer& buffer : buffers) mine.push_back(*buffer.tensor);
  const std::vector<Tensor> received = broadcast_coalesced(*group_, mine, 0, "buffers");
  // A swap, not a copy into place: an earlier forward may have saved what was there. Each has memory of its own, since
  // writes are counted by storage: a norm that moves its statistics must not look like a change of another's, which is
  // frozen and saved for backward.
  if (group_->rank() != 0)
    for (std::size_t i = 0; i < buffers.size(); ++i) *buffers[i].tensor = received[i].clone();
  buffers_of_ = reducer_ ? reducer_->iterations() : 0;
}

void DistributedDataParallel::check_parameters() const {
  const std::vector<nn::NamedParameter> now = module_.named_parameters();
  std::size_t next = 0;  // of those that were there at construction
  for (const auto& [name, variable] : now) {
    const bool is_next = next < parameters().size() && parameters()[next].variable.is(variable);
    if (is_next != variable.requires_grad())
      core::fail("DistributedDataParallel: {} was {} after construction: make it anew", name,
                 is_next ? "switched to requires no gradient" : "added, replaced, or switched to require a gradient");
    next += is_next;
  }
  if (next < parameters().size())
    core::fail("DistributedDataParallel: {} is no longer a parameter of the module: make it anew",
               parameters()[next].name);
}

void DistributedDataParallel::check_is_wrapped(const nn::Module& module) const {
  if (&module != &module_)
    core::fail("DistributedDataParallel: forward was given another module than the one that was wrapped");
}

DistributedDataParallel::ForwardPass::ForwardPass(DistributedDataParallel& ddp)
    : ddp_(ddp), begin_ns_(core::recorder::now_ns()), exceptions_(std::uncaught_exceptions()) {
  ddp.check_parameters();
  const bool are_due = ddp.buffers_of_ != ddp.reducer_->iterations();
  if (are_due && ddp.broadcast_buffers_ && ddp.module_.is_training()) ddp.sync_buffers();
}

DistributedDataParallel::ForwardPass::~ForwardPass() {
  if (std::uncaught_exceptions() > exceptions_) return;
  ddp_.reducer_->note_forward({.begin_ns = begin_ns_, .end_ns = core::recorder::now_ns()});
}

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& ddp) : ddp_(&ddp) {
  ++ddp_->no_sync_depth_;
  ddp_->reducer_->set_local_only(true);
}

DistributedDataParallel::NoSync::~NoSync() {
  if (ddp_ && --ddp_->no_sync_depth_ == 0) ddp_->reducer_->set_local_only(false);
}

}  // namespace tandem::distributed
