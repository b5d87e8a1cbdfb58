#include "tandem/distributed/reducer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "tandem/core/recorder.h"
#include "tandem/distributed/bucket_memory.h"

namespace tandem::distributed {
namespace {

using autograd::BackwardPass;
using autograd::HookTurn;
using core::recorder::now_ns;

std::vector<std::string> names_of(const std::vector<std::size_t>& indices,
                                  const std::vector<ReducedParameter>& parameters) {
  std::vector<std::string> names;
  for (const std::size_t index : indices) names.push_back(parameters[index].name);
  return names;
}

}  // namespace

BucketPlan initial_plan(const std::vector<ReducedParameter>& parameters, const BucketLimits& limits) {
  return plan_buckets(items_of(parameters), reverse_order(parameters.size()), limits.in_turn());
}

Reducer::Reducer(std::vector<ReducedParameter> parameters, std::shared_ptr<ProcessGroup> group,
                 const ReducerOptions& options, std::unique_ptr<CommHook> hook)
    : parameters_(std::move(parameters)),
      group_(std::move(group)),
      options_(options),
      hook_(std::move(hook)),
      unused_(parameters_, options.unused),
      destinations_(parameters_.size()) {
  if (parameters_.empty()) core::fail("reducer: no parameter requires a gradient, so there is nothing to reduce");
  assign(initial_plan(parameters_, options.limits));
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

void Reducer::assign(BucketPlan plan) {
  plan_ = std::make_shared<const BucketPlan>(std::move(plan));
  rule_ = LaunchRule(*plan_, options_.overlap);
  buckets_.clear();
  for (const BucketPlan::Bucket& planned : plan_->buckets()) {
    const std::size_t index = buckets_.size();
    BucketMemory memory = allocate_bucket(planned, parameters_);
    buckets_.push_back(
        {.name = fmt::format("bucket {} ({})", index, list_names(names_of(planned.members, parameters_))),
         .slots = std::move(memory.slots),
         .gradients = {.index = index, .flat = std::move(memory.flat), .label = {}},
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
  rule_.begin();
  is_anything_sent_ = false;
  last_ready_.reset();
  traffic_before_ = core::traffic;
  record_ = {};
  record_.iteration = last_.iteration + 1;
  record_.backward.begin_ns = now_ns();
  record_.forward = std::exchange(forward_, {});  // a second backward through the same graph had none
  record_.local = std::exchange(local_, {});
  record_.plan = plan_;
  record_.buckets.resize(buckets_.size());
  record_.ready_ns.resize(parameters_.size());
}

void Reducer::record_local(BackwardPass& pass) {
  const std::int64_t begin_ns = now_ns();
  const Interval forward = std::exchange(forward_, {});
  pass.at_end([this, begin_ns, forward] {
    local_.count += 1;
    local_.forward_ns += forward.end_ns - forward.begin_ns;
    local_.backward_ns += now_ns() - begin_ns;
  });
}

void Reducer::gradient_is_ready(std::size_t parameter) {
  if (!is_running_) return;
  record_.ready_ns[parameter] = now_ns();
  last_ready_ = parameter;
  mark_ready(parameter);
}

void Reducer::mark_ready(std::size_t parameter) {
  settle(parameter);
  const LaunchRule::Buckets may_go = rule_.complete(parameter);
  const std::size_t bucket = plan_->slot_of(parameter).bucket;
  if (rule_.is_complete(bucket)) record_.buckets[bucket].ready_ns = now_ns();
  launch(may_go);
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

void Reducer::launch(LaunchRule::Buckets buckets) {
  for (const std::size_t b : buckets) {
    Bucket& bucket = buckets_[b];
    record_.buckets[b].bytes = static_cast<std::int64_t>(bucket.gradients.flat.bytes());
    record_.buckets[b].launched_ns = now_ns();
    bucket.gradients.label = fmt::format("{} of synced backward {}", bucket.name, record_.iteration);
    bucket.work = hook_->launch(bucket.gradients, *group_);
    is_anything_sent_ = true;
  }
}

void Reducer::finish() {
  record_.backward.end_ns = now_ns();
  launch(rule_.end());
  check_all_came();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const WorkPtr work = std::exchange(buckets_[b].work, nullptr);
    work->wait();
    hook_->complete(buckets_[b].gradients);
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

void Reducer::check_all_came() const {
  const std::vector<std::size_t> missing = rule_.missing();
  if (missing.empty()) return;
  core::fail("synced backward {}: reached {}, but no gradient came for it", record_.iteration,
             list_names(names_of(missing, parameters_)));
}

// An exception ended a synced backward on this rank. Where nothing was launched, a barrier takes the place of this
// iteration: where all ranks failed alike all come to it, and go on; a rank that is in its first bucket instead is told
// that ranks differ, and why. Where buckets are on their way there is no going on: the next iteration would be added to
// this one.
void Reducer::abandon(const std::string& cause) {
  if (!std::exchange(is_running_, false)) return;
  const std::string where =
      last_ready_ ? fmt::format(" (after the gradient of {})", parameters_[*last_ready_].name) : std::string();
  why_abandoned_ =
      fmt::format("synced backward {} failed on rank {}: {}{}", record_.iteration, group_->rank(), cause, where);
  if (is_anything_sent_) {
    group_->abort(why_abandoned_);
  } else {
    abandoned_ = group_->barrier(fmt::format("synced backward {} failed: {}", record_.iteration, cause));
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
  const auto arrival = [&](std::int64_t i) {
    const std::int64_t ns = last_.ready_ns[static_cast<std::size_t>(i)];
    return ns > 0 ? ns : std::numeric_limits<std::int64_t>::max();
  };
  std::vector<std::int64_t> order(parameters_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return arrival(a) < arrival(b); });
  core::Tensor of_rank_0 = core::Tensor::from(order, core::kCpu);
  group_->broadcast(of_rank_0, 0, "order of arrival of gradients")->wait();
  const auto agreed = of_rank_0.to_vector<std::int64_t>();
  assign(plan_buckets(items_of(parameters_), std::vector<std::size_t>(agreed.begin(), agreed.end()),
                      options_.limits.in_turn()));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {  // what was accumulated is kept
    Variable& variable = parameters_[i].variable;
    if (variable.grad().defined()) variable.set_grad(slot_of(i).copy_from(variable.grad()));
  }
}

core::Tensor& Reducer::slot_of(std::size_t parameter) {
  const BucketPlan::Slot& slot = plan_->slot_of(parameter);
  return buckets_[slot.bucket].slots[slot.place];
}

}  // namespace tandem::distributed
