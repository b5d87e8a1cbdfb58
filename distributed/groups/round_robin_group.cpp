// Deals collectives out, and spreads failures.
#include "tandem/distributed/groups/round_robin_group.h"

#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <utility>

#include "tandem/core/error.h"
#include "tandem/distributed/groups/lane.h"

namespace tandem::distributed {

namespace {

using Kind = Collective::Kind;

class RoundRobinGroup final : public ProcessGroup {
 public:
  RoundRobinGroup(const std::string& name, std::vector<std::shared_ptr<ProcessGroup>> groups)
      : ProcessGroup(name, groups.front()->rank(), groups.front()->size(), groups.front()->device()),
        groups_(std::move(groups)) {
    for (std::size_t i = 0; size() > 1 && i < groups_.size(); ++i)
      lookouts_.push_back(std::make_unique<Lane<WorkPtr>>([this, i](const WorkPtr& work) { await(i, *work); }));
  }

  ~RoundRobinGroup() override {
    std::vector<std::shared_ptr<ProcessGroup>> ending;
    {
      const std::lock_guard lock(mutex_);
      ending.swap(groups_);
    }
    ending.clear();  // which ends what they run, and so what the lookouts wait for
  }

  std::shared_ptr<ProcessGroup> duplicate(const std::string& name) override {
    std::vector<std::shared_ptr<ProcessGroup>> others;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      others.push_back(groups_[i]->duplicate(round_robin_name(name, i, groups_.size())));
    return make_round_robin_group(name, std::move(others));
  }

  void abort(const std::string& cause) override {
    for (const auto& group : current_groups()) group->abort(cause);
  }

  WorkPtr submit(Collective collective) override {
    const bool is_between_two = collective.kind == Kind::send || collective.kind == Kind::recv;
    const std::lock_guard lock(mutex_);
    const std::size_t which = is_between_two ? 0 : turn_;
    if (!is_between_two) turn_ = (turn_ + 1) % groups_.size();
    WorkPtr work = groups_[which]->submit(std::move(collective));
    if (!lookouts_.empty()) lookouts_[which]->push(work);
    return work;
  }

 private:
  void await(std::size_t which, Work& work) {
    try {
      work.wait();
    } catch (const std::exception& error) {
      const auto groups = current_groups();
      for (std::size_t i = 0; i < groups.size(); ++i)
        if (i != which) groups[i]->abort(error.what());
    }
  }

  /// None when this group is about to end.
  std::vector<std::shared_ptr<ProcessGroup>> current_groups() {
    const std::lock_guard lock(mutex_);
    return groups_;
  }

  std::vector<std::shared_ptr<ProcessGroup>> groups_;
  std::mutex mutex_;
  std::size_t turn_ = 0;
  std::vector<std::unique_ptr<Lane<WorkPtr>>> lookouts_;  // one a group, whose collectives end in order
};

}  // namespace

std::shared_ptr<ProcessGroup> make_round_robin_group(const std::string& name,
                                                     std::vector<std::shared_ptr<ProcessGroup>> groups) {
  if (groups.empty()) core::fail("group {}: needs at least 1 group to take turns, got 0", name);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!groups[i]) core::fail("group {}: group {} of {} is null", name, i + 1, groups.size());
    if (groups[i]->rank() != groups[0]->rank() || groups[i]->size() != groups[0]->size())
      core::fail("group {}: groups must be of the same ranks: {} is rank {} of {}, {} is rank {} of {}", name,
                 groups[0]->name(), groups[0]->rank(), groups[0]->size(), groups[i]->name(), groups[i]->rank(),
                 groups[i]->size());
  }
  return std::make_shared<RoundRobinGroup>(name, std::move(groups));
}

std::string round_robin_name(const std::string& name, std::size_t index, std::size_t count) {
  return fmt::format("{} (group {} of {})", name, index + 1, count);
}

}  // namespace tandem::distributed
