#include "tandem/distributed/reducer.h"

#include <algorithm>
#include <utility>

#include "tandem/core/recorder.h"

namespace tandem::distributed {
namespace {

using autograd::BackwardPass;
using autograd::HookTurn;
using core::recorder::now_ns;

/// "conv1.weight, conv1.bias and 3 more".
std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::vector<Variable> variables_of(const std::vector<ReducedParameter>& parameters) {
  std::vector<Variable> variables;
  for (const ReducedParameter& parameter : parameters) variables.push_back(parameter.variable);
  return variables;
}

}  // namespace

Reducer::Reducer(std::vector<ReducedParameter> parameters, std::shared_ptr<ProcessGroup> group,
                 const BucketLimits& limits)
    : parameters_(std::move(parameters)), group_(std::move(group)), slots_(parameters_.size()) {
  if (parameters_.empty()) core::fail("reducer: no parameter requires a gradient, so there is nothing to reduce");
  assignment_ = assign_buckets(variables_of(parameters_), limits);
  for (const std::vector<std::size_t>& members : assignment_) {
    std::vector<Variable> variables;
    std::vector<std::string> names;
    for (const std::size_t parameter : members) {
      slots_[parameter] = {.bucket = buckets_.size(), .place = variables.size()};
      variables.push_back(parameters_[parameter].variable);
      names.push_back(parameters_[parameter].name);
    }
    buckets_.push_back({.memory = allocate_bucket(variables),
                        .label = fmt::format("bucket {} ({})", buckets_.size(), list_names(names)),
                        .pending = 0,
                        .work = {}});
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Variable& variable = parameters_[i].variable;
    try {
      registrations_.push_back(
          variable.set_gradient_destination(buckets_[slots_[i].bucket].memory.slots[slots_[i].place]));
    } catch (const core::Error& error) {
      core::fail("reducer: {} belongs to another reducer already: {}", parameters_[i].name, error.what());
    }
    registrations_.push_back(variable.observe_backward(*this));
    registrations_.push_back(variable.register_post_accumulate_grad_hook(
        [this, i](const Variable&) { gradient_is_ready(i); }, HookTurn::last));
  }
}

void Reducer::backward_begins(BackwardPass& pass, std::span<const Variable> reached) {
  is_synced_ = !local_only_;
  if (!is_synced_) return;
  check_nothing_in_flight();
  check_all_reached(reached);
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b].pending = assignment_[b].size();
  launched_ = 0;
  traffic_before_ = core::traffic;
  record_ = {};
  record_.iteration = last_.iteration + 1;
  record_.forward = forward_;
  record_.backward.begin_ns = now_ns();
  record_.buckets.resize(buckets_.size());
  record_.ready_ns.resize(parameters_.size());
  pass.at_end([this] { finish(); });
}

void Reducer::check_nothing_in_flight() const {
  if (buckets_.front().work)
    core::fail(
        "synced backward {} ended with an exception when {} of {} buckets had been launched: the ranks no longer agree "
        "on what comes next",
        record_.iteration, launched_, buckets_.size());
}

void Reducer::check_all_reached(std::span<const Variable> reached) const {
  if (reached.size() == parameters_.size()) return;
  std::vector<std::string> missing;
  for (const auto& [name, variable] : parameters_)
    if (std::none_of(reached.begin(), reached.end(), [&](const Variable& other) { return other.is(variable); }))
      missing.push_back(name);
  core::fail("synced backward {}: the loss does not depend on {}, so {} bucket would wait for ever",
             last_.iteration + 1, list_names(missing), missing.size() > 1 ? "their" : "its");
}

void Reducer::gradient_is_ready(std::size_t parameter) {
  if (!is_synced_) return;
  record_.ready_ns[parameter] = now_ns();
  settle(parameter);
  Bucket& bucket = buckets_[slots_[parameter].bucket];
  if (--bucket.pending > 0) return;
  record_.buckets[slots_[parameter].bucket].ready_ns = now_ns();
  launch_ready_buckets();
}

// The gradient lies in its slot already, unless a hook of the user's put another there, or took it away.
void Reducer::settle(std::size_t parameter) {
  Variable& variable = parameters_[parameter].variable;
  core::Tensor& slot = buckets_[slots_[parameter].bucket].memory.slots[slots_[parameter].place];
  if (variable.grad().defined() && variable.grad().is_same_view(slot)) return;
  if (variable.grad().defined()) {
    slot.copy_from(variable.grad());
    core::traffic.copied += static_cast<std::int64_t>(slot.bytes());
  } else {
    slot.fill(0);  // what an earlier iteration left there must not be sent
  }
  variable.set_grad(slot);
}

void Reducer::launch_ready_buckets() {
  while (launched_ < buckets_.size() && buckets_[launched_].pending == 0) launch(launched_++);
}

// The one place where gradients are divided: each rank's by the number of ranks, before they are summed, so that no sum
// overflows where the average would not.
void Reducer::launch(std::size_t bucket) {
  Bucket& launched = buckets_[bucket];
  BucketRecord& record = record_.buckets[bucket];
  record.bytes = static_cast<std::int64_t>(launched.memory.flat.bytes());
  record.launched_ns = now_ns();
  launched.work = group_->all_reduce(
      launched.memory.flat, {.op = ReduceOp::sum,
                             .scale = 1.0 / group_->size(),
                             .label = fmt::format("{} of synced backward {}", launched.label, record_.iteration)});
}

void Reducer::finish() {
  record_.backward.end_ns = now_ns();
  if (launched_ < buckets_.size())
    core::fail("synced backward {}: {} was reached, but got no gradient for some parameter", record_.iteration,
               buckets_[launched_].label);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const WorkPtr work = buckets_[b].work;
    work->wait();
    record_.buckets[b].on_the_wire = {work->times().started_ns, work->times().finished_ns};
    record_.bytes_sent += work->bytes_sent();
  }
  for (Bucket& bucket : buckets_) bucket.work = nullptr;
  record_.bytes_copied = core::traffic.copied - traffic_before_.copied;
  record_.bytes_reordered = core::traffic.reordered - traffic_before_.reordered;
  record_.end_ns = now_ns();
  last_ = std::exchange(record_, {});
}

}  // namespace tandem::distributed
