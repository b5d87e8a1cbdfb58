// The plans.
#include "tandem/distributed/groups/all_reduce_plan.h"

#include <algorithm>

#include "tandem/core/alignment.h"

namespace tandem::distributed {

namespace {

using Kind = Step::Kind;

int modulo(int value, int size) { return ((value % size) + size) % size; }

// numel * part / parts without leaving 64 bits.
std::int64_t fraction(std::int64_t numel, std::int64_t part, std::int64_t parts) {
  return numel / parts * part + numel % parts * part / parts;
}

// Part `part` of `parts`, which are as even as they can be.
Range part_of(Range whole, std::int64_t part, std::int64_t parts) {
  return {whole.begin + fraction(whole.numel(), part, parts), whole.begin + fraction(whole.numel(), part + 1, parts)};
}

std::vector<Range> segments_of(Range range, std::int64_t segment) {
  std::vector<Range> segments;
  for (std::int64_t begin = range.begin; begin < range.end; begin += segment)
    segments.push_back({begin, std::min(range.end, begin + segment)});
  return segments;
}

void add_all(Plan& plan, Kind kind, int peer, Range range, std::int64_t segment, bool is_first = false) {
  for (const Range& part : segments_of(range, segment)) plan.push_back({kind, peer, part, is_first});
}

// Receives a range segment by segment and passes each one on as soon as it is there.
void add_relay(Plan& plan, Kind kind, int from, int to, Range range, std::int64_t segment, bool passes_on) {
  for (const Range& part : segments_of(range, segment)) {
    plan.push_back({kind, from, part, kind == Kind::receive_reduce});
    if (passes_on) plan.push_back({Kind::send, to, part, false});
  }
}

// One rank's walk through the ring with one block: in turn 0 it sends its first chunk, in turn k it receives a chunk
// and passes it on. What is sent in turn k is received by the neighbour in turn k + 1.
struct Ring {
  int rank, size;
  bool reduces, gathers;
  std::int64_t segment;

  int turns() const { return 1 + (reduces ? size - 1 : 0) + (gathers ? size - 1 : 0); }

  void add_turn(Plan& plan, int turn, Range block) const {
    const int left = modulo(rank - 1, size), right = modulo(rank + 1, size);
    const bool is_last = turn == turns() - 1;
    // Chunks come in falling order, from the one before this rank's on where they are reduced.
    const Range chunk = part_of(block, modulo(rank - turn - (reduces ? 1 : 0), size), size);
    if (turn == 0) return add_all(plan, Kind::send, right, chunk, segment, reduces);
    const bool is_reduction = reduces && turn < size;
    add_relay(plan, is_reduction ? Kind::receive_reduce : Kind::receive, left, right, chunk, segment, !is_last);
  }
};

// A long vector is cut into blocks of one segment a rank, and a few blocks are under way at once, each some turns
// behind the one before: the wire is busy in both directions, and a segment is sent on while it is still in the cache.
// All ranks take the turns in the same order, (turn + stride * block, block), so that receives keep the order of sends.
constexpr int kBlocksUnderWay = 3;

Plan pipelined_ring(const Ring& ring, std::int64_t numel) {
  Plan plan;
  const std::int64_t block_numel = ring.segment * ring.size;
  const std::int64_t blocks = core::divide_up(numel, block_numel);
  const int turns = ring.turns(), stride = core::divide_up(turns, kBlocksUnderWay);
  for (std::int64_t time = 0; time < turns + stride * (blocks - 1); ++time) {
    const std::int64_t first = std::max<std::int64_t>(0, (time - turns + stride) / stride);
    for (std::int64_t block = first; block < blocks && block * stride <= time; ++block) {
      ring.add_turn(plan, static_cast<int>(time - block * stride), part_of({0, numel}, block, blocks));
    }
  }
  return plan;
}

}  // namespace

Range chunk_range(std::int64_t numel, int size, int chunk) { return part_of({0, numel}, chunk, size); }

Plan ring_reduce_scatter(int rank, int size, std::int64_t numel, std::int64_t segment) {
  Plan plan;
  const Ring ring = {rank, size, true, false, segment};
  for (int turn = 0; size > 1 && turn < ring.turns(); ++turn) ring.add_turn(plan, turn, {0, numel});
  return plan;
}

Plan ring_all_gather(int rank, int size, std::int64_t numel, std::int64_t segment) {
  Plan plan;
  const Ring ring = {rank, size, false, true, segment};
  for (int turn = 0; size > 1 && turn < ring.turns(); ++turn) ring.add_turn(plan, turn, {0, numel});
  return plan;
}

Plan ring_all_reduce(int rank, int size, std::int64_t numel, std::int64_t segment) {
  if (size == 1) return {};
  return pipelined_ring({rank, size, true, true, segment}, numel);
}

Plan halving_doubling_all_reduce(int rank, int size, std::int64_t numel, std::int64_t segment) {
  Plan plan;
  int power = 1;
  while (power * 2 <= size) power *= 2;
  const Range whole = {0, numel};
  if (rank >= power) {  // hands its vector over and waits for the result
    add_all(plan, Kind::send, rank - power, whole, segment, true);
    add_all(plan, Kind::receive, rank - power, whole, segment);
    return plan;
  }
  const bool is_folded = rank + power < size;
  if (is_folded) add_all(plan, Kind::receive_reduce, rank + power, whole, segment, true);

  struct Exchange {
    int partner;
    Range kept, given;
  };
  std::vector<Exchange> exchanges;
  Range held = whole;
  for (int distance = power / 2; distance > 0; distance /= 2) {
    const std::int64_t middle = held.begin + held.numel() / 2;
    const Range lower = {held.begin, middle}, upper = {middle, held.end};
    const bool keeps_lower = (rank & distance) == 0;
    const Exchange exchange = {rank ^ distance, keeps_lower ? lower : upper, keeps_lower ? upper : lower};
    const bool is_first = exchanges.empty() && !is_folded;
    add_all(plan, Kind::send, exchange.partner, exchange.given, segment, is_first);
    add_all(plan, Kind::receive_reduce, exchange.partner, exchange.kept, segment, is_first);
    held = exchange.kept;
    exchanges.push_back(exchange);
  }
  for (auto exchange = exchanges.rbegin(); exchange != exchanges.rend(); ++exchange) {
    add_all(plan, Kind::send, exchange->partner, exchange->kept, segment);
    add_all(plan, Kind::receive, exchange->partner, exchange->given, segment);
  }
  if (is_folded) add_all(plan, Kind::send, rank + power, whole, segment);
  return plan;
}

Plan chain_broadcast(int rank, int size, int root, std::int64_t numel, std::int64_t segment) {
  Plan plan;
  if (size == 1) return plan;
  const int place = modulo(rank - root, size), next = modulo(rank + 1, size);
  if (place == 0) {
    add_all(plan, Kind::send, next, {0, numel}, segment);
  } else {
    add_relay(plan, Kind::receive, modulo(rank - 1, size), next, {0, numel}, segment, place < size - 1);
  }
  return plan;
}

Plan tree_broadcast(int rank, int size, int root, std::int64_t numel, std::int64_t segment) {
  Plan plan;
  const int place = modulo(rank - root, size);
  int distance = 1;  // the first in which this rank sends: it received in the one before
  while (distance <= place) distance *= 2;
  if (place > 0) add_all(plan, Kind::receive, modulo(rank - distance / 2, size), {0, numel}, segment);
  for (; place + distance < size; distance *= 2)
    add_all(plan, Kind::send, modulo(rank + distance, size), {0, numel}, segment);
  return plan;
}

// Measured with 2, 3 and 4 ranks on 2 cores over loopback; that the ring's 2 (W - 1) steps need messages that grow with
// W is reckoned, not measured.
AllReduceKind choose_all_reduce(std::int64_t bytes, int size) {
  // A direct exchange costs W - 1 messages a rank where halving-doubling costs 2 log2 W: with few ranks it wins. With
  // nothing to send it is a barrier in which sizes are compared.
  if (bytes == 0 || (bytes <= 16 * 1024 && size <= 4)) return AllReduceKind::direct;
  const bool is_power_of_two = (size & (size - 1)) == 0;  // others send up to twice the bytes
  const std::int64_t longest_chunk = (is_power_of_two ? 64 : 16) * 1024;
  return bytes <= longest_chunk * size ? AllReduceKind::halving_doubling : AllReduceKind::ring;
}

}  // namespace tandem::distributed
