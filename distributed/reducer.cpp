#include "tandem/distributed/reducer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tandem/core/recorder.h"

namespace tandem::distributed {
namespace {

using autograd::BackwardPass;
using autograd::HookTurn;
using core::recorder::now_ns;

std::vector<Variable> variables_of(const std::vector<ReducedParameter>& parameters) {
  std::vector<Variable> variables;
  for (const ReducedParameter& parameter : parameters) variables.push_back(parameter.variable);
  return variables;
}

}  // namespace

Reducer::Reducer(std::vector<ReducedParameter> parameters, std::shared_ptr<ProcessGroup> group,
                 const ReducerOptions& options)
    : parameters_(std::move(parameters)),
      group_(std::move(group)),
      options_(options),
      unused_(parameters_, options.unused),
      destinations_(parameters_.size()) {
  if (parameters_.empty()) core::fail("reducer: no parameter requires a gradient, so there is nothing to reduce");
  assign(reverse_order(parameters_.size()));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Variable& variable = parameters_[i].variable;
    index_of_[variable.state().get()] = i;
    registrations_.push_back(variable.observe_backward(*this));
    registrations_.push_back(variable.register_post_accumulate_grad_hook(
        [this, i](const Variable&) { gradient_is_ready(i); }, HookTurn::last));
  }
}

Reducer::~Reducer() {
  if (abandoned_ && !abandoned_->is_done()) group_->abort(why_abandoned_);
}

void Reducer::assign(std::span<const std::size_t> order) {
  assignment_ =
      std::make_shared<const BucketAssignment>(assign_buckets(variables_of(parameters_), order, options_.limits));
  buckets_.clear();
  slots_.resize(parameters_.size());
  for (const std::vector<std::size_t>& members : *assignment_) {
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
    destinations_[i].remove();
    try {
      destinations_[i] = parameters_[i].variable.set_gradient_destination(slot_of(i));
    } catch (const core::Error& error) {
      core::fail("reducer: {} belongs to another reducer already: {}", parameters_[i].name, error.what());
    }
  }
}

void Reducer::backward_begins(BackwardPass& pass, std::span<const Variable> reached) {
  std::vector<std::size_t> indices;
  for (const Variable& variable : reached) indices.push_back(index_of_.at(variable.state().get()));
  unused_.note_reached(indices);
  is_running_ = !local_only_;
  if (!is_running_) return record_local(pass);
  begin();
  pass.at_end([this] { finish(); }, [this](const std::string& cause) { abandon(cause); });
  unused_.begin(indices, record_.iteration, *group_);
  std::vector<bool> comes(parameters_.size(), false);
  for (const std::size_t parameter : indices) comes[parameter] = true;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!comes[i]) mark_ready(i);
}

void Reducer::begin() {
  if (const WorkPtr abandoned = std::exchange(abandoned_, nullptr)) abandoned->wait();
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b].pending = (*assignment_)[b].size();
  launched_ = 0;
  traffic_before_ = core::traffic;
  record_ = {};
  record_.iteration = last_.iteration + 1;
  record_.backward.begin_ns = now_ns();
  record_.forward = take_forward(record_.backward.begin_ns);
  record_.local = std::exchange(local_, {});
  record_.assignment = assignment_;
  record_.buckets.resize(buckets_.size());
  record_.ready_ns.resize(parameters_.size());
}

void Reducer::record_local(BackwardPass& pass) {
  const std::int64_t begin_ns = now_ns();
  const Interval forward = take_forward(begin_ns);
  pass.at_end([this, begin_ns, forward] {
    local_.count += 1;
    local_.forward_ns += forward.end_ns - forward.begin_ns;
    local_.backward_ns += now_ns() - begin_ns;
  });
}

// Each forward is one backward's: a second one through the same graph had none.
Interval Reducer::take_forward(std::int64_t backward_begin_ns) {
  Interval forward = std::exchange(forward_, {});
  if (forward.begin_ns > 0 && forward.end_ns == 0) forward.end_ns = backward_begin_ns;
  return forward;
}

void Reducer::gradient_is_ready(std::size_t parameter) {
  if (!is_running_) return;
  record_.ready_ns[parameter] = now_ns();
  last_ready_ = parameter;
  mark_ready(parameter);
}

void Reducer::mark_ready(std::size_t parameter) {
  settle(parameter);
  const std::size_t bucket = slots_[parameter].bucket;
  if (--buckets_[bucket].pending > 0) return;
  record_.buckets[bucket].ready_ns = now_ns();
  if (options_.overlap) launch_ready_buckets();
}

// The gradient lies in its slot already, unless a hook of the user's put another there, or took it away.
void Reducer::settle(std::size_t parameter) {
  Variable& variable = parameters_[parameter].variable;
  core::Tensor& slot = slot_of(parameter);
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
  while (launched_ < buckets_.size() && buckets_[launched_].pending == 0) {
    launch(launched_);
    ++launched_;
  }
}

void Reducer::launch(std::size_t bucket) {
  record_.buckets[bucket].bytes = static_cast<std::int64_t>(buckets_[bucket].memory.flat.bytes());
  record_.buckets[bucket].launched_ns = now_ns();
  buckets_[bucket].work = options_.hook->launch(as_seen_by_hook(bucket), *group_);
}

void Reducer::finish() {
  record_.backward.end_ns = now_ns();
  launch_ready_buckets();
  check_all_launched();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const WorkPtr work = std::exchange(buckets_[b].work, nullptr);
    work->wait();
    options_.hook->complete(as_seen_by_hook(b));
    if (group_->size() > 1) record_.buckets[b].on_the_wire = {work->times().started_ns, work->times().finished_ns};
    record_.bytes_sent += work->bytes_sent();
  }
  record_.unused_parameters = unused_.finish();
  record_.bytes_copied = core::traffic.copied - traffic_before_.copied;
  record_.bytes_reordered = core::traffic.reordered - traffic_before_.reordered;
  record_.end_ns = now_ns();
  is_running_ = false;
  last_ = std::exchange(record_, {});
  if (options_.order == BucketOrder::observed && last_.iteration == 1) rebuild_in_order_of_arrival();
}

void Reducer::check_all_launched() const {
  if (launched_ == buckets_.size()) return;
  std::vector<std::string> missing;
  for (const std::size_t parameter : (*assignment_)[launched_])
    if (record_.ready_ns[parameter] == 0) missing.push_back(parameters_[parameter].name);
  core::fail("synced backward {}: reached {}, but no gradient came for it", record_.iteration, list_names(missing));
}

// An exception ended a synced backward on this rank. Where nothing was launched, a barrier takes the place of this
// iteration: where all ranks failed alike all come to it, and go on; a rank that is in its first bucket instead is told
// that ranks differ, and why. Where buckets are on their way there is no going on: the next iteration would be added to
// this one.
void Reducer::abandon(const std::string& cause) {
  if (!std::exchange(is_running_, false)) return;
  const bool any_came = std::any_of(record_.ready_ns.begin(), record_.ready_ns.end(), [](auto ns) { return ns > 0; });
  const std::string where =
      any_came ? fmt::format(" (after the gradient of {})", parameters_[last_ready_].name) : std::string();
  why_abandoned_ =
      fmt::format("synced backward {} failed on rank {}: {}{}", record_.iteration, group_->rank(), cause, where);
  if (launched_ == 0) {
    abandoned_ = group_->barrier(fmt::format("synced backward {} failed: {}", record_.iteration, cause));
  } else {
    group_->abort(why_abandoned_);
  }
  for (Bucket& bucket : buckets_) bucket.work = nullptr;
  unused_.forget();
}

void Reducer::backward_without_loss() {
  is_running_ = !local_only_;
  if (!is_running_) return;
  begin();
  try {
    unused_.begin_without_loss(record_.iteration, *group_);
    for (std::size_t i = 0; i < parameters_.size(); ++i) mark_ready(i);
    finish();
  } catch (const std::exception& error) {
    abandon(error.what());
    throw;
  }
}

void Reducer::rebuild_in_order_of_arrival() {
  const auto arrival = [&](std::size_t i) {
    return last_.ready_ns[i] > 0 ? last_.ready_ns[i] : std::numeric_limits<std::int64_t>::max();
  };
  std::vector<std::int64_t> order(parameters_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return arrival(static_cast<std::size_t>(a)) < arrival(static_cast<std::size_t>(b));
  });
  const core::Tensor of_rank_0 = core::Tensor::from(order, core::kCpu);
  group_->broadcast(of_rank_0, 0, "order of arrival of gradients")->wait();
  const auto agreed = of_rank_0.to_vector<std::int64_t>();
  assign(std::vector<std::size_t>(agreed.begin(), agreed.end()));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {  // what was accumulated is kept
    Variable& variable = parameters_[i].variable;
    if (variable.grad().defined()) variable.set_grad(slot_of(i).copy_from(variable.grad()));
  }
}

core::Tensor& Reducer::slot_of(std::size_t parameter) {
  return buckets_[slots_[parameter].bucket].memory.slots[slots_[parameter].place];
}

GradientBucket Reducer::as_seen_by_hook(std::size_t bucket) const {
  return {.index = bucket,
          .flat = buckets_[bucket].memory.flat,
          .label = fmt::format("{} of synced backward {}", buckets_[bucket].label, record_.iteration)};
}

}  // namespace tandem::distributed
