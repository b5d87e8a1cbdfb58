// One lock for the group: these groups are for tests and for looking at, not for speed.
#include "tandem/distributed/groups/thread_transport.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tandem::distributed {

class ThreadMailboxes {
 public:
  struct Message {
    Signature signature;
    const void* data = nullptr;
    std::size_t bytes = 0;
    bool is_taken = false;
  };
  using MessagePtr = std::shared_ptr<Message>;

  explicit ThreadMailboxes(int member_count) : size(static_cast<std::size_t>(member_count)), members(size) {
    for (Member& member : members) member.inbox.resize(size);
  }

  struct Member {
    bool is_gone = false;
    std::condition_variable changed;            // something that this member waits for
    std::vector<std::deque<MessagePtr>> inbox;  // by sender
  };

  std::mutex mutex;
  const std::size_t size;
  std::vector<Member> members;
};

namespace {

using Kind = TransportError::Kind;

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadMailboxes> mailboxes, int rank)
      : mailboxes_(std::move(mailboxes)), rank_(static_cast<std::size_t>(rank)), posted_(mailboxes_->size) {}
  ~ThreadTransport() override { leave(); }

  void begin(const Signature& signature, Clock::time_point deadline) override {
    signature_ = signature;
    deadline_ = deadline;
  }

  void post_receive(int peer, void* data, std::size_t bytes) override {
    posted_[static_cast<std::size_t>(peer)].push_back({data, bytes});
  }

  void wait_receive(int peer) override {
    const auto from = static_cast<std::size_t>(peer);
    std::unique_lock lock(mailboxes_->mutex);
    auto& inbox = self().inbox[from];
    wait(lock, peer, [&] { return !inbox.empty(); });
    const auto message = inbox.front();
    inbox.pop_front();
    const Posted target = posted_[from].front();
    posted_[from].pop_front();
    if (message->signature != signature_ || message->bytes != target.bytes)
      throw TransportError(Kind::mismatch, peer, message->signature.str());
    // Under the lock: the sender cannot leave and free its memory meanwhile.
    if (target.bytes > 0) std::memcpy(target.data, message->data, target.bytes);
    message->is_taken = true;
    mailboxes_->members[from].changed.notify_all();
  }

  void post_send(int peer, const void* data, std::size_t bytes) override {
    const std::lock_guard lock(mailboxes_->mutex);
    if (self().is_gone) throw TransportError(Kind::aborted, -1, "");
    auto& receiver = mailboxes_->members[static_cast<std::size_t>(peer)];
    const auto message = std::make_shared<ThreadMailboxes::Message>(signature_, data, bytes, false);
    receiver.inbox[rank_].push_back(message);
    sent_.push_back({peer, message});
    receiver.changed.notify_all();
  }

  void wait_sends() override {
    std::unique_lock lock(mailboxes_->mutex);
    for (const auto& [peer, message] : sent_) wait(lock, peer, [&] { return message->is_taken; });
    sent_.clear();
  }

  void end() override { forget(); }

  void forget() override {
    sent_.clear();
    for (auto& posted : posted_) posted.clear();
  }

  void abort() override { leave(); }

 private:
  struct Posted {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  struct Sent {
    int peer = 0;
    ThreadMailboxes::MessagePtr message;
  };

  ThreadMailboxes::Member& self() { return mailboxes_->members[rank_]; }

  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, int peer, Ready ready) {
    const ThreadMailboxes::Member& other = mailboxes_->members[static_cast<std::size_t>(peer)];
    const bool is_over =
        wait_until(self().changed, lock, deadline_, [&] { return self().is_gone || ready() || other.is_gone; });
    if (self().is_gone) throw TransportError(Kind::aborted, peer, "");
    if (ready()) return;
    if (is_over) throw TransportError(Kind::lost, peer, "it left the group");
    throw TransportError(Kind::deadline, peer, "");
  }

  // Takes back what was not received, whose memory may soon be freed.
  void leave() {
    const std::lock_guard lock(mailboxes_->mutex);
    self().is_gone = true;
    for (ThreadMailboxes::Member& member : mailboxes_->members) {
      member.inbox[rank_].clear();
      member.changed.notify_all();
    }
  }

  std::shared_ptr<ThreadMailboxes> mailboxes_;
  std::size_t rank_;
  Signature signature_;
  Clock::time_point deadline_;
  std::vector<std::deque<Posted>> posted_;  // by sender
  std::vector<Sent> sent_;
};

}  // namespace

std::shared_ptr<ThreadMailboxes> make_thread_mailboxes(int size) { return std::make_shared<ThreadMailboxes>(size); }

std::unique_ptr<Transport> make_thread_transport(std::shared_ptr<ThreadMailboxes> mailboxes, int rank) {
  return std::make_unique<ThreadTransport>(std::move(mailboxes), rank);
}

}  // namespace tandem::distributed
