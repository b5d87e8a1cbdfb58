// The group's thread posts and waits; Gloo's own thread moves the bytes; a third sleeps until a deadline passes.
#include "tandem/distributed/groups/gloo_transport.h"

#include <gloo/transport/buffer.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/core/start_thread.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace tandem::distributed {

namespace {

// A range that was sent is received into once all others have added to it, which may be before the call that sent it
// has returned, though the system has copied it by then. ThreadSanitizer, which cannot see what depends on what through
// TCP, would take the two calls for a race; groups of threads run the same plans under its eyes.
struct SendUnseen {
#if defined(__SANITIZE_THREAD__)
  SendUnseen() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~SendUnseen() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
  SendUnseen() = default;
  ~SendUnseen() {}
#endif
};

using Kind = TransportError::Kind;
using gloo::transport::Buffer;
using BufferPtr = std::unique_ptr<Buffer>;

// Longest short message; how many may be under way to a peer, and after how many there is credit for as many again.
constexpr std::size_t kShortBytes = std::size_t{16} * 1024, kShortPlaces = 8, kCreditEvery = 4;
// More than a plan has receives posted (collective_runner.cpp).
constexpr std::size_t kNoticePlaces = 64;
// What a transport that goes in good order still waits for its last messages to be on their way.
constexpr Milliseconds kFlush{500};

// Gloo's slots; long messages take turns with the numbers from kFirstLongSlot on.
enum Slot : int { kShortSlot, kCreditSlot, kNoticeSlot, kFirstLongSlot };
constexpr std::uint64_t kLongSlots = 1 << 20;
int long_slot(std::uint64_t index) { return kFirstLongSlot + static_cast<int>(index % kLongSlots); }

struct Header {
  Signature signature;
  std::uint64_t bytes = 0;  // of a short message: that follow; of a notice: that are expected
};
static_assert(std::is_trivially_copyable_v<Header>);
constexpr std::uint64_t kLongFollows = ~std::uint64_t{0};  // instead of a short message's bytes

// A registered ring of places, and the next one to be used. Messages are counted, since each place is used in turn.
struct Ring {
  std::vector<std::byte> memory;
  std::size_t stride = 0, places = 0;
  std::uint64_t used = 0;
  BufferPtr buffer;  // destroyed before its memory

  void allocate(std::size_t place_count, std::size_t place_bytes) {
    places = place_count;
    stride = place_bytes;
    memory.resize(places * stride);
  }
  std::size_t offset() const { return used % places * stride; }
};

// Sends of one buffer, of which some may not have left yet.
struct Outgoing : Ring {
  std::uint64_t completed = 0;
  std::uint64_t pending() const { return used - completed; }
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(std::shared_ptr<GlooMesh> mesh, Milliseconds timeout)
      : mesh_(std::move(mesh)), peers_(static_cast<std::size_t>(mesh_->endpoint().size)) {
    for (int rank = 0; rank < mesh_->endpoint().size; ++rank)
      if (rank != mesh_->endpoint().rank) attach(rank);
    const Milliseconds look = std::clamp(timeout / 16, Milliseconds(5), Milliseconds(500));
    timer_ = core::start_thread("that watches deadlines",
                                [&] { return std::thread([this, look] { watch_deadline(look); }); });
  }

  ~GlooTransport() override {
    flush();
    leave();
    {
      const std::lock_guard lock(mutex_);
      is_leaving_ = true;
      left_.notify_all();
    }
    timer_.join();
  }

  void begin(const Signature& signature, Clock::time_point deadline) override {
    signature_ = signature;
    set_deadline(deadline);
    for (Peer& peer : peers_) peer.has_sent_signature = peer.has_seen_signature = false;
  }

  void post_receive(int rank, void* data, std::size_t bytes) override {
    Peer& peer = peer_of(rank);
    Posted posted{data, bytes, nullptr};
    if (bytes > kShortBytes) {
      attempt(rank, [&] {
        posted.buffer = make_buffer(mesh_->receiving(rank), rank, long_slot(peer.long_posted++), data, bytes);
      });
      put(rank, peer.notices_out, {signature_, bytes}, nullptr, 0);
    }
    peer.posted.push_back(std::move(posted));
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
    take_notice(rank, bytes);
    attempt(rank, [&] {
      auto buffer =
          make_buffer(mesh_->sending(rank), rank, long_slot(peer.long_sent++), const_cast<void*>(data), bytes);
      sent_.push_back({rank, std::move(buffer)});
    });
    send(rank, *sent_.back().buffer, bytes, 0);
  }

  void wait_sends() override {
    for (const Sent& sent : sent_) wait(sent.rank, *sent.buffer, true);
    sent_.clear();
  }

  void forget() override {
    leave();
    end();
  }

  void end() override {
    set_deadline(Clock::time_point::max());
    sent_.clear();
    for (Peer& peer : peers_) peer.posted.clear();
  }

  void abort() override {
    {
      const std::lock_guard lock(mutex_);
      is_aborted_ = true;
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
    Ring shorts_in, notices_in, credits_in;
    Outgoing shorts_out, notices_out, credits_out;
    std::uint64_t credit = kShortPlaces;  // short messages that the peer has room for
    std::deque<Posted> posted;
    bool has_sent_signature = false, has_seen_signature = false;  // in this collective
    std::uint64_t long_sent = 0, long_posted = 0;
    std::size_t longest_sent = 0;  // bytes
  };

  // "Recv" also for those that only send: Gloo tells registered buffers of lost connections.
  BufferPtr make_buffer(gloo::transport::Context& context, int rank, int slot, void* data, std::size_t bytes) {
    return context.getPair(rank)->createRecvBuffer(slot, data, bytes);
  }

  Peer& peer_of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  void attach(int rank) {
    const auto attach_one = [&](Ring& in, Outgoing& out, int slot, std::size_t places, std::size_t bytes) {
      in.allocate(places, bytes);
      out.allocate(places, bytes);
      in.buffer = make_buffer(mesh_->receiving(rank), rank, slot, in.memory.data(), in.memory.size());
      out.buffer = make_buffer(mesh_->sending(rank), rank, slot, out.memory.data(), out.memory.size());
    };
    Peer& peer = peer_of(rank);
    attach_one(peer.shorts_in, peer.shorts_out, kShortSlot, kShortPlaces, sizeof(Header) + kShortBytes);
    attach_one(peer.credits_in, peer.credits_out, kCreditSlot, 1, sizeof(Header));
    attach_one(peer.notices_in, peer.notices_out, kNoticeSlot, kNoticePlaces, sizeof(Header));
  }

  // Header and payload to the same place of the peer's ring.
  void put(int rank, Outgoing& out, const Header& header, const void* data, std::size_t bytes) {
    for (; out.pending() >= out.places; ++out.completed) wait(rank, *out.buffer, true);
    std::byte* place = out.memory.data() + out.offset();
    std::memcpy(place, &header, sizeof(header));
    if (data != nullptr) std::memcpy(place + sizeof(header), data, bytes);
    send(rank, *out.buffer, sizeof(header) + bytes, out.offset());
    ++out.used;
  }

  void send(int rank, Buffer& buffer, std::size_t bytes, std::size_t offset) {
    attempt(rank, [&] {
      const SendUnseen unseen;
      buffer.send(offset, bytes, offset);
    });
    Peer& peer = peer_of(rank);
    if (bytes <= peer.longest_sent) return;
    peer.longest_sent = bytes;
    mesh_->widen(rank);
  }

  const std::byte* take(int rank, Ring& in) {
    wait(rank, *in.buffer, false);
    const std::byte* place = in.memory.data() + in.offset();
    ++in.used;
    return place;
  }

  void send_short(int rank, std::uint64_t header_bytes, const void* data, std::size_t bytes) {
    Peer& peer = peer_of(rank);
    if (peer.credit == 0) {
      take(rank, peer.credits_in);
      peer.credit += kCreditEvery;
    }
    --peer.credit;
    put(rank, peer.shorts_out, {signature_, header_bytes}, data, bytes);
    peer.has_sent_signature = true;
  }

  // The next short message, which must say `header_bytes`.
  void take_short(int rank, std::uint64_t header_bytes, void* data) {
    Peer& peer = peer_of(rank);
    const std::byte* place = take(rank, peer.shorts_in);
    check(rank, place, header_bytes);
    if (data != nullptr && header_bytes > 0) std::memcpy(data, place + sizeof(Header), header_bytes);
    peer.has_seen_signature = true;
    if (peer.shorts_in.used % kCreditEvery == 0) put(rank, peer.credits_out, {}, nullptr, 0);
  }

  void take_notice(int rank, std::size_t bytes) { check(rank, take(rank, peer_of(rank).notices_in), bytes); }

  void check(int rank, const std::byte* place, std::uint64_t bytes) const {
    Header header;
    std::memcpy(&header, place, sizeof(header));
    if (header.signature != signature_ || header.bytes != bytes)
      throw TransportError(Kind::mismatch, rank, header.signature.str());
  }

  // What Gloo throws is about the connection to `rank`.
  template <class Action>
  void attempt(int rank, Action action) {
    try {
      action();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      throw_if_stopped(rank);
      throw TransportError(Kind::lost, rank, gloo_reason(error));
    }
  }

  void wait(int rank, Buffer& buffer, bool is_send) {
    attempt(rank, [&] { is_send ? buffer.waitSend() : buffer.waitRecv(); });
  }

  void throw_if_stopped(int rank) const {
    if (is_aborted_) throw TransportError(Kind::aborted, rank, "");
    if (is_expired_) throw TransportError(Kind::deadline, rank, "");
  }

  void set_deadline(Clock::time_point deadline) {
    const std::lock_guard lock(mutex_);
    deadline_ = deadline;
  }

  void watch_deadline(Milliseconds look) {
    std::unique_lock lock(mutex_);
    while (!is_leaving_ && !is_expired_) {
      const Clock::time_point now = Clock::now();
      if (now >= deadline_) {
        is_expired_ = true;
        mesh_->interrupt();
        return;
      }
      left_.wait_until(lock, std::min(deadline_, now + look));
    }
  }

  // Ends the connections, after what is on its way, and waits until Gloo's thread knows and has left our memory.
  void leave() {
    if (!mesh_->is_connected()) return;
    mesh_->close("left");
    for (Peer& peer : peers_) {
      for (Buffer* buffer : {peer.shorts_in.buffer.get(), peer.shorts_out.buffer.get()}) {
        try {
          while (buffer != nullptr) buffer->waitRecv();
        } catch (const std::exception&) {
          // The end of the connection.
        }
      }
    }
  }

  void flush() {
    set_deadline(Clock::now() + kFlush);
    left_.notify_all();
    try {
      for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
        Peer& peer = peers_[rank];
        for (Outgoing* out : {&peer.shorts_out, &peer.credits_out, &peer.notices_out})
          for (; out->pending() > 0; ++out->completed) wait(static_cast<int>(rank), *out->buffer, true);
      }
    } catch (const TransportError&) {
      // The peer is gone or does not listen: nothing is owed to it.
    }
  }

  std::shared_ptr<GlooMesh> mesh_;
  Signature signature_;
  std::vector<Peer> peers_;
  std::vector<Sent> sent_;

  std::mutex mutex_;
  std::condition_variable left_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool is_aborted_ = false, is_expired_ = false, is_leaving_ = false;
  std::thread timer_;
};

}  // namespace

std::unique_ptr<Transport> make_gloo_transport(std::shared_ptr<GlooMesh> mesh, Milliseconds timeout) {
  return std::make_unique<GlooTransport>(std::move(mesh), timeout);
}

}  // namespace tandem::distributed
