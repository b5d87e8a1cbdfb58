// Joins threads to groups over mailboxes.
#include "tandem/distributed/groups/thread_group.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tandem/distributed/groups/queued_group.h"
#include "tandem/distributed/groups/thread_transport.h"

namespace tandem::distributed {

class ThreadNetwork::Implementation : public std::enable_shared_from_this<Implementation> {
 public:
  explicit Implementation(int size) : size_(size) {}

  int size() const { return size_; }

  std::shared_ptr<ProcessGroup> join(const std::string& name, int rank, const GroupOptions& options) {
    if (rank < 0 || rank >= size_) core::fail("group {}: no rank {} among {} threads", name, rank, size_);
    auto transport = make_thread_transport(mailboxes_of(name, rank), rank);
    auto duplicate = [self = shared_from_this(), rank, options](const std::string& other_name) {
      return self->join(other_name, rank, options);
    };
    return std::make_shared<QueuedGroup>(name, rank, size_, options, std::move(transport), std::move(duplicate));
  }

 private:
  struct Group {
    std::shared_ptr<ThreadMailboxes> mailboxes;
    std::vector<bool> has_joined;
  };

  std::shared_ptr<ThreadMailboxes> mailboxes_of(const std::string& name, int rank) {
    const std::lock_guard lock(mutex_);
    Group& group = groups_[name];
    if (!group.mailboxes) group = {make_thread_mailboxes(size_), std::vector<bool>(static_cast<std::size_t>(size_))};
    if (group.has_joined[static_cast<std::size_t>(rank)])
      core::fail("group {}: rank {} has joined it already", name, rank);
    group.has_joined[static_cast<std::size_t>(rank)] = true;
    return group.mailboxes;
  }

  const int size_;
  std::mutex mutex_;
  std::map<std::string, Group> groups_;
};

ThreadNetwork::ThreadNetwork(int size) {
  if (size < 1) core::fail("ThreadNetwork: needs at least 1 rank, got {}", size);
  implementation_ = std::make_shared<Implementation>(size);
}

ThreadNetwork::~ThreadNetwork() = default;

int ThreadNetwork::size() const { return implementation_->size(); }

std::shared_ptr<ProcessGroup> ThreadNetwork::join(const std::string& name, int rank, const GroupOptions& options) {
  return implementation_->join(name, rank, options);
}

}  // namespace tandem::distributed
