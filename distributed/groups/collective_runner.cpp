// Chooses a plan for each collective and carries it out.
#include "tandem/distributed/groups/collective_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tandem/core/alignment.h"
#include "tandem/distributed/groups/reduce_kernels.h"

namespace tandem::distributed {

namespace {

// Bytes of one message: small enough that a segment is added in cache while the next is on the wire, large enough that
// its notice and wake-ups do not count.
constexpr std::size_t kSegmentBytes = std::size_t{1} << 20;
// Segments that may arrive while one is added, and receives posted ahead in all.
constexpr std::size_t kStagedSegments = 4, kPostedReceives = 32;
// Below, a broadcast's latency counts; above, its bandwidth.
constexpr std::size_t kTreeBroadcastBytes = std::size_t{64} * 1024;

using Kind = Collective::Kind;

std::size_t item_bytes(const Collective& collective) { return core::item_size(collective.tensor.dtype()); }

std::int64_t segment_of(const Collective& collective) {
  return static_cast<std::int64_t>(kSegmentBytes / item_bytes(collective));
}

// Nothing for the null pointers of empty tensors.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

Job::Job(Collective issued) : collective(std::move(issued)) {
  const bool is_only_read = collective.kind == Kind::send || collective.kind == Kind::all_gather;
  data = first_byte(collective.tensor);
  output = first_byte(collective.output);
  if (data != nullptr && !is_only_read) collective.tensor.storage()->bump_version();
  if (output != nullptr) collective.output.storage()->bump_version();
}

void run_alone(const Job& job) {
  const Collective& collective = job.collective;
  const bool reduces = collective.kind == Kind::all_reduce || collective.kind == Kind::reduce_scatter;
  if (reduces) scale_in_place(collective.tensor.dtype(), job.data, collective.scale, collective.tensor.numel());
  if (job.output != nullptr) copy_bytes(job.output, job.data, collective.tensor.bytes());
}

CollectiveRunner::CollectiveRunner(Transport& transport, int rank, int size)
    : transport_(transport),
      rank_(rank),
      size_(size),
      sent_to_(static_cast<std::size_t>(size)),
      received_from_(static_cast<std::size_t>(size)) {}

std::int64_t CollectiveRunner::run(const Job& job, std::uint64_t sequence, Transport::Clock::time_point deadline) {
  const Collective& collective = job.collective;
  Signature signature = {.sequence = sequence, .kind = collective.kind, .op = collective.op};
  if (collective.tensor.defined()) {
    signature.bytes = collective.tensor.bytes();
    signature.dtype = collective.tensor.dtype();
  }
  const auto peer = static_cast<std::size_t>(collective.peer);
  if (collective.kind == Kind::broadcast) signature.root = static_cast<std::uint8_t>(collective.peer);
  if (collective.kind == Kind::send) signature.sequence = sent_to_[peer]++;
  if (collective.kind == Kind::recv) {
    signature.kind = Kind::send;
    signature.sequence = received_from_[peer]++;
  }
  bytes_sent_ = 0;
  signature_ = signature;
  transport_.begin(signature, deadline);
  dispatch(job);
  return bytes_sent_;
}

void CollectiveRunner::dispatch(const Job& job) {
  const Collective& collective = job.collective;
  const std::int64_t numel = collective.tensor.defined() ? collective.tensor.numel() : 0;
  switch (collective.kind) {
    case Kind::all_reduce: return all_reduce(job);
    case Kind::all_gather: return all_gather(job);
    case Kind::reduce_scatter: return reduce_scatter(job);
    case Kind::barrier: return barrier();
    case Kind::broadcast: {
      const auto plan = collective.tensor.bytes() <= kTreeBroadcastBytes ? tree_broadcast : chain_broadcast;
      return run_plan(plan(rank_, size_, collective.peer, numel, segment_of(collective)), job, job.data);
    }
    case Kind::send:  // a chain of two
      return run_plan(chain_broadcast(0, 2, 0, numel, segment_of(collective)), job, job.data);
    case Kind::recv: return run_plan(chain_broadcast(1, 2, 0, numel, segment_of(collective)), job, job.data);
  }
}

void CollectiveRunner::all_reduce(const Job& job) {
  const std::int64_t numel = job.collective.tensor.numel();
  const std::int64_t segment = segment_of(job.collective);
  switch (choose_all_reduce(static_cast<std::int64_t>(job.collective.tensor.bytes()), size_)) {
    case AllReduceKind::direct: return all_reduce_direct(job);
    case AllReduceKind::halving_doubling:
      return run_plan(halving_doubling_all_reduce(rank_, size_, numel, segment), job, job.data);
    case AllReduceKind::ring: return run_plan(ring_all_reduce(rank_, size_, numel, segment), job, job.data);
  }
}

// All vectors side by side, reduced in the order of ranks on every rank.
void CollectiveRunner::all_reduce_direct(const Job& job) {
  const Collective& collective = job.collective;
  const std::size_t bytes = collective.tensor.bytes();
  const std::int64_t numel = collective.tensor.numel();
  const core::DType dtype = collective.tensor.dtype();
  std::byte* received = staging(bytes * static_cast<std::size_t>(size_ + 1));
  std::byte* result = received + bytes * static_cast<std::size_t>(size_);
  const auto of = [&](int rank) {
    return rank == rank_ ? job.data : received + bytes * static_cast<std::size_t>(rank);
  };
  scale_in_place(dtype, job.data, collective.scale, numel);
  // Each rank begins with its right neighbour, so that not all send to rank 0 first.
  for (int distance = 1; distance < size_; ++distance) {
    const int source = (rank_ + size_ - distance) % size_;
    transport_.post_receive(source, of(source), bytes);
  }
  for (int distance = 1; distance < size_; ++distance) send((rank_ + distance) % size_, job.data, bytes);
  for (int distance = 1; distance < size_; ++distance) transport_.wait_receive((rank_ + size_ - distance) % size_);
  if (size_ > 1) reduce_pair(collective.op, dtype, result, of(0), of(1), numel);
  for (int rank = 2; rank < size_; ++rank) reduce_pair(collective.op, dtype, result, result, of(rank), numel);
  transport_.wait_sends();  // before the numbers that they send change
  copy_bytes(job.data, result, bytes);
}

void CollectiveRunner::all_gather(const Job& job) {
  const std::size_t bytes = job.collective.tensor.bytes();
  const std::int64_t numel = job.collective.tensor.numel();
  copy_bytes(job.output + bytes * static_cast<std::size_t>(rank_), job.data, bytes);
  run_plan(ring_all_gather(rank_, size_, numel * size_, segment_of(job.collective)), job, job.output);
}

void CollectiveRunner::reduce_scatter(const Job& job) {
  const Collective& collective = job.collective;
  const std::int64_t numel = collective.tensor.numel();
  run_plan(ring_reduce_scatter(rank_, size_, numel, segment_of(collective)), job, job.data);
  const Range own = chunk_range(numel, size_, rank_);
  copy_bytes(job.output, job.data + static_cast<std::size_t>(own.begin) * item_bytes(collective),
             collective.output.bytes());
}

// Dissemination: in step k each rank tells the one 2^k to its right what it knows; log2 W steps.
void CollectiveRunner::barrier() {
  for (int distance = 1; distance < size_; distance *= 2) {
    const int source = (rank_ + size_ - distance) % size_;
    transport_.post_receive(source, nullptr, 0);
    send((rank_ + distance) % size_, nullptr, 0);
    transport_.wait_receive(source);
  }
  transport_.wait_sends();
}

void CollectiveRunner::run_plan(const Plan& plan, const Job& job, std::byte* data) {
  const Collective& collective = job.collective;
  const core::DType dtype = collective.tensor.dtype();
  const std::size_t item = item_bytes(collective);
  const bool is_between_two = collective.kind == Kind::send || collective.kind == Kind::recv;
  const auto peer_of = [&](const Step& step) { return is_between_two ? collective.peer : step.peer; };
  const auto place = [&](Range range) { return data + static_cast<std::size_t>(range.begin) * item; };
  const auto bytes_of = [&](Range range) { return static_cast<std::size_t>(range.numel()) * item; };

  std::size_t longest = 0;
  for (const Step& step : plan)
    if (step.kind == Step::Kind::receive_reduce) longest = std::max(longest, bytes_of(step.range));
  const std::size_t stride = core::align_up(longest);
  std::byte* staged = staging(stride * kStagedSegments);

  std::size_t next_to_post = 0, posted = 0, staged_begin = 0, staged_end = 0;  // the latter count for ever
  const auto slot = [&](std::size_t index) { return staged + index % kStagedSegments * stride; };
  const auto post_receives = [&] {
    for (; next_to_post < plan.size() && posted < kPostedReceives; ++next_to_post) {
      const Step& step = plan[next_to_post];
      if (step.kind == Step::Kind::send) continue;
      const bool is_staged = step.kind == Step::Kind::receive_reduce;
      if (is_staged && staged_end - staged_begin == kStagedSegments) return;
      transport_.post_receive(peer_of(step), is_staged ? slot(staged_end++) : place(step.range), bytes_of(step.range));
      ++posted;
    }
  };

  for (const Step& step : plan) {
    post_receives();
    if (step.kind == Step::Kind::send) {
      if (step.is_first) scale_in_place(dtype, place(step.range), collective.scale, step.range.numel());
      send(peer_of(step), place(step.range), bytes_of(step.range));
      continue;
    }
    transport_.wait_receive(peer_of(step));
    --posted;
    if (step.kind == Step::Kind::receive_reduce) {
      reduce_into_own(collective.op, dtype, place(step.range), slot(staged_begin++),
                      step.is_first ? collective.scale : 1, step.range.numel());
    }
  }
  transport_.wait_sends();
}

void CollectiveRunner::send(int peer, const void* data, std::size_t bytes) {
  transport_.post_send(peer, data, bytes);
  bytes_sent_ += static_cast<std::int64_t>(bytes);
}

std::byte* CollectiveRunner::staging(std::size_t bytes) {
  if (!staging_.defined() || staging_.bytes() < bytes)
    staging_ = Tensor::empty({static_cast<std::int64_t>(bytes)}, {.dtype = core::DType::uint8, .device = core::kCpu});
  return static_cast<std::byte*>(staging_.mutable_raw_data());
}

}  // namespace tandem::distributed
