// The comm thread posts and waits; Gloo's own thread moves the bytes; a third sleeps until a deadline passes.
#include "tandem/distributed/groups/gloo_transport.h"

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::distributed {

namespace {

using Kind = TransportError::Kind;
using gloo::transport::UnboundBuffer;
using BufferPtr = std::unique_ptr<UnboundBuffer>;

// Longest short message, and how many may be under way to a peer.
constexpr std::size_t kShortBytes = std::size_t{16} * 1024, kShortSlots = 8;
// Gloo closes the connections when a wait of its own passes; ours ends it before.
constexpr Milliseconds kNever = std::chrono::hours(24 * 365);
// What a transport that goes in good order still waits for its last short messages to be on their way.
constexpr Milliseconds kFlush{500};

struct Header {
  Signature signature;
  std::uint64_t payload = 0;  // bytes that follow
};
static_assert(std::is_trivially_copyable_v<Header>);
constexpr std::size_t kLongFollows = ~std::size_t{0};  // as payload: none here, the long message is on its way

constexpr std::uint64_t kShortSlot = 0;

// Messages of 64 MiB and more do not exist (collective_runner.cpp); numbers that wrap around meet only in order.
std::uint64_t long_slot(const Signature& signature, std::uint64_t index, std::size_t bytes) {
  const std::uint64_t family = signature.kind == Collective::Kind::send ? 2 : 1;
  return family << 62 | (signature.sequence & 0x3fffff) << 40 | (index & 0x3fff) << 26 | (bytes & 0x3ffffff);
}

class ShortBuffer {
 public:
  void attach(gloo::transport::Context& context) {
    memory_.resize(sizeof(Header) + kShortBytes);
    buffer_ = context.createUnboundBuffer(memory_.data(), memory_.size());
  }
  UnboundBuffer& buffer() { return *buffer_; }
  std::byte* memory() { return memory_.data(); }
  bool is_pending = false;

 private:
  std::vector<std::byte> memory_;
  BufferPtr buffer_;  // goes first: waits until Gloo's thread has left the memory
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(std::shared_ptr<GlooMesh> mesh, Milliseconds timeout)
      : mesh_(std::move(mesh)), peers_(static_cast<std::size_t>(mesh_->endpoint().size)) {
    for (int rank = 0; rank < mesh_->endpoint().size; ++rank) {
      if (rank == mesh_->endpoint().rank) continue;
      Peer& peer = peers_[static_cast<std::size_t>(rank)];
      for (ShortBuffer& buffer : peer.outgoing) buffer.attach(mesh_->sending(rank));
      for (ShortBuffer& buffer : peer.incoming) buffer.attach(mesh_->receiving(rank));
      peer.to_repost = kShortSlots;
    }
    const Milliseconds look = std::clamp(timeout / 16, Milliseconds(5), Milliseconds(500));
    timer_ = std::thread([this, look] { watch_deadline(look); });
  }

  ~GlooTransport() override {
    flush();
    {
      const std::lock_guard lock(mutex_);
      is_leaving_ = true;
      left_.notify_all();
    }
    timer_.join();
  }

  void begin(const Signature& signature, Clock::time_point deadline) override {
    if (is_new_) repost_all();
    is_new_ = false;
    signature_ = signature;
    {
      const std::lock_guard lock(mutex_);
      deadline_ = deadline;
    }
    for (Peer& peer : peers_) {
      peer.has_sent_signature = peer.has_seen_signature = false;
      peer.long_sent = peer.long_posted = 0;
    }
  }

  void post_receive(int rank, void* data, std::size_t bytes) override {
    Peer& peer = peer_of(rank);
    BufferPtr buffer;
    if (bytes > kShortBytes) {
      attempt(rank, [&] {
        buffer = mesh_->receiving(rank).createUnboundBuffer(data, bytes);
        buffer->recv(rank, long_slot(signature_, peer.long_posted++, bytes), 0, bytes);
      });
    }
    peer.posted.push_back({data, bytes, std::move(buffer)});
  }

  void wait_receive(int rank) override {
    Peer& peer = peer_of(rank);
    Posted& posted = peer.posted.front();
    if (posted.buffer == nullptr) {
      take_short(rank, posted.bytes, posted.data);
    } else {
      if (!peer.has_seen_signature) take_short(rank, kLongFollows, nullptr);
      wait(rank, *posted.buffer, false);
    }
    peer.posted.pop_front();
  }

  void post_send(int rank, const void* data, std::size_t bytes) override {
    Peer& peer = peer_of(rank);
    if (bytes <= kShortBytes) return send_short(rank, bytes, data, bytes);
    if (!peer.has_sent_signature) send_short(rank, kLongFollows, nullptr, 0);
    attempt(rank, [&] {
      BufferPtr buffer = mesh_->sending(rank).createUnboundBuffer(const_cast<void*>(data), bytes);
      buffer->send(rank, long_slot(signature_, peer.long_sent++, bytes), 0, bytes);
      sent_.push_back({rank, std::move(buffer)});
    });
  }

  void wait_sends() override {
    for (const Sent& sent : sent_) wait(sent.rank, *sent.buffer, true);
    sent_.clear();
  }

  void end() override {
    forget();
    repost_all();
  }

  void forget() override {
    {
      const std::lock_guard lock(mutex_);
      deadline_ = Clock::time_point::max();
    }
    sent_.clear();
    for (Peer& peer : peers_) peer.posted.clear();
  }

  void abort() override {
    {
      const std::lock_guard lock(mutex_);
      is_aborted_ = true;
      wake();
    }
    mesh_->close("aborted");
  }

 private:
  struct Posted {
    void* data = nullptr;
    std::size_t bytes = 0;
    BufferPtr buffer;  // none: a short message
  };
  struct Sent {
    int rank = 0;
    BufferPtr buffer;
  };
  struct Peer {
    std::array<ShortBuffer, kShortSlots> outgoing, incoming;
    std::size_t next_outgoing = 0, next_incoming = 0, next_repost = 0, to_repost = 0;
    std::deque<Posted> posted;
    bool has_sent_signature = false, has_seen_signature = false;  // in this collective
    std::uint64_t long_sent = 0, long_posted = 0;
  };

  Peer& peer_of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  void send_short(int rank, std::size_t payload, const void* data, std::size_t bytes) {
    Peer& peer = peer_of(rank);
    ShortBuffer& slot = peer.outgoing[peer.next_outgoing++ % kShortSlots];
    if (slot.is_pending) wait(rank, slot.buffer(), true);
    slot.is_pending = false;
    const Header header = {signature_, payload};
    std::memcpy(slot.memory(), &header, sizeof(header));
    if (data != nullptr) std::memcpy(slot.memory() + sizeof(header), data, bytes);
    attempt(rank, [&] { slot.buffer().send(rank, kShortSlot, 0, sizeof(header) + bytes); });
    slot.is_pending = true;
    peer.has_sent_signature = true;
  }

  // The next short message, which must have `payload`.
  void take_short(int rank, std::size_t payload, void* data) {
    Peer& peer = peer_of(rank);
    ShortBuffer& slot = peer.incoming[peer.next_incoming++ % kShortSlots];
    wait(rank, slot.buffer(), false);
    Header header;
    std::memcpy(&header, slot.memory(), sizeof(header));
    if (header.signature != signature_ || header.payload != payload)
      throw TransportError(Kind::mismatch, rank, header.signature.str());
    if (data != nullptr && payload > 0) std::memcpy(data, slot.memory() + sizeof(header), payload);
    peer.has_seen_signature = true;
    if (++peer.to_repost > kShortSlots / 2) repost(rank);
  }

  void repost_all() {
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) repost(static_cast<int>(rank));
  }

  void repost(int rank) {
    Peer& peer = peer_of(rank);
    for (; peer.to_repost > 0; --peer.to_repost) {
      ShortBuffer& slot = peer.incoming[peer.next_repost++ % kShortSlots];
      attempt(rank, [&] { slot.buffer().recv(rank, kShortSlot, 0, sizeof(Header) + kShortBytes); });
    }
  }

  // What Gloo throws is about the connection to `rank`.
  template <class Action>
  void attempt(int rank, Action action) {
    try {
      action();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw_stopped_or(TransportError(Kind::lost, rank, gloo_reason(error)));
    }
  }

  void wait(int rank, UnboundBuffer& buffer, bool is_send) {
    {
      const std::lock_guard lock(mutex_);
      throw_if_stopped(rank);
      waiting_ = &buffer;
      waits_for_send_ = is_send;
    }
    bool is_done = false;
    attempt(rank, [&] {
      struct Guard {
        ~Guard() {
          const std::lock_guard lock(self->mutex_);
          self->waiting_ = nullptr;
        }
        GlooTransport* self;
      } guard{this};
      is_done = is_send ? buffer.waitSend(nullptr, kNever) : buffer.waitRecv(nullptr, kNever);
    });
    if (is_done) return;
    const std::lock_guard lock(mutex_);
    throw_if_stopped(rank);
    throw TransportError(Kind::aborted, rank, "");
  }

  void throw_stopped_or(const TransportError& error) {
    const std::lock_guard lock(mutex_);
    throw_if_stopped(error.peer);
    throw error;
  }

  void throw_if_stopped(int rank) const {
    if (is_aborted_) throw TransportError(Kind::aborted, rank, "");
    if (is_expired_) throw TransportError(Kind::deadline, rank, "");
  }

  // Ends the wait that runs; the mutex is held.
  void wake() {
    if (waiting_ == nullptr) return;
    waits_for_send_ ? waiting_->abortWaitSend() : waiting_->abortWaitRecv();
  }

  void watch_deadline(Milliseconds look) {
    std::unique_lock lock(mutex_);
    while (!is_leaving_ && !is_expired_) {
      const Clock::time_point now = Clock::now();
      if (now >= deadline_) {
        is_expired_ = true;
        wake();
        return;
      }
      left_.wait_until(lock, std::min(deadline_, now + look));
    }
  }

  void flush() {
    const auto deadline = Clock::now() + kFlush;
    {
      const std::lock_guard lock(mutex_);
      if (is_aborted_ || is_expired_) return;
    }
    try {
      for (Peer& peer : peers_) {
        for (ShortBuffer& slot : peer.outgoing) {
          if (!slot.is_pending) continue;
          const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
          slot.buffer().waitSend(nullptr, std::max(left, Milliseconds(0)));
        }
      }
    } catch (const std::exception&) {
      // The peer is gone or does not listen: nothing is owed to it.
    }
  }

  std::shared_ptr<GlooMesh> mesh_;
  Signature signature_;
  bool is_new_ = true;
  std::vector<Peer> peers_;
  std::vector<Sent> sent_;

  std::mutex mutex_;
  std::condition_variable left_;
  Clock::time_point deadline_ = Clock::time_point::max();
  UnboundBuffer* waiting_ = nullptr;
  bool waits_for_send_ = false;
  bool is_aborted_ = false, is_expired_ = false, is_leaving_ = false;
  std::thread timer_;
};

}  // namespace

std::unique_ptr<Transport> make_gloo_transport(std::shared_ptr<GlooMesh> mesh, Milliseconds timeout) {
  return std::make_unique<GlooTransport>(std::move(mesh), timeout);
}

}  // namespace tandem::distributed
