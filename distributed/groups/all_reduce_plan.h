// Who sends what to whom: each rank's part of a collective as pure data, which collective_runner.h carries out.
//
// A vector of `numel` elements is cut into one chunk a rank; chunk c is [numel * c / W, numel * (c + 1) / W). Chunks
// are sent in segments, so that one segment is added while the next is on the wire.
//
//   ring              reduce-scatter: a chunk's partial sum travels once around the ring and grows at each rank, to end
//                     at the rank of its number; all-gather: the finished chunks travel around once more. Each rank
//                     sends 2 (W - 1) / W of the vector, which is the least possible, in 2 (W - 1) steps.
//   halving-doubling  the same bytes in 2 log2 W steps: in step k partners at distance W / 2^k exchange halves of what
//                     they still hold, then the way back. Ranks beyond the greatest power of two first hand their
//                     vector to a partner and get the result in the end.
//
// Rabenseifner, "Optimization of Collective Reduction Operations" (2004); Thakur, Rabenseifner, Gropp, "Optimization of
// Collective Communication Operations in MPICH" (2005).
//
// Each element's reduction is computed at one rank and copied, or in the same order at two: all get the same bits. A
// range that was sent is written again only after data that depend on that message have come.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem::distributed {

struct Range {
  std::int64_t begin = 0, end = 0;  ///< elements

  std::int64_t numel() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

struct Step {
  enum class Kind : std::uint8_t {
    send,            ///< the range to `peer`
    receive,         ///< the range from `peer`, over what is there
    receive_reduce,  ///< own range = received (op) own range
  };

  Kind kind = Kind::send;
  int peer = 0;
  Range range;
  /// send, receive_reduce: the range still holds this rank's own numbers, which must be scaled first.
  bool is_first = false;

  bool operator==(const Step&) const = default;
};

using Plan = std::vector<Step>;

/// Where chunk `chunk` of `size` lies.
Range chunk_range(std::int64_t numel, int size, int chunk);

// `segment`: the most elements of one message. Empty messages are left out.
/// Afterwards rank r holds the reduced chunk r; the rest is garbage.
Plan ring_reduce_scatter(int rank, int size, std::int64_t numel, std::int64_t segment);
/// Before, rank r holds chunk r.
Plan ring_all_gather(int rank, int size, std::int64_t numel, std::int64_t segment);
/// One after the other, without a gap between; of a long vector in blocks that follow each other closely.
Plan ring_all_reduce(int rank, int size, std::int64_t numel, std::int64_t segment);
Plan halving_doubling_all_reduce(int rank, int size, std::int64_t numel, std::int64_t segment);
/// From rank to rank, each passing on a segment while the next arrives: for long messages.
Plan chain_broadcast(int rank, int size, int root, std::int64_t numel, std::int64_t segment);
/// Those who have it double in each step: for short messages.
Plan tree_broadcast(int rank, int size, int root, std::int64_t numel, std::int64_t segment);

enum class AllReduceKind : std::uint8_t {
  direct,  ///< everybody sends all to everybody and reduces in the order of ranks: one trip
  halving_doubling,
  ring,
};

/// Which is fastest; the thresholds were measured over loopback (see the source).
AllReduceKind choose_all_reduce(std::int64_t bytes, int size);

}  // namespace tandem::distributed
