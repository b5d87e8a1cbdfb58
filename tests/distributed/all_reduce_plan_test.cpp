// Plans are carried out on vectors in one thread: right sums, the same bits, no deadlock, no more traffic than
// promised.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tandem/distributed/groups/all_reduce_plan.h"

namespace {

using namespace tandem::distributed;
using Vector = std::vector<float>;
using Kind = Step::Kind;

struct Simulation {
  std::vector<Plan> plans;
  std::vector<Vector> vectors;
  std::vector<std::vector<bool>> is_scaled;  // each element of each rank
  std::map<std::pair<int, int>, std::deque<Vector>> wires;
  std::vector<std::int64_t> sent;
};

constexpr float kScale = 0.75f;

void scale_first(Simulation& simulation, std::size_t rank, const Step& step) {
  for (auto i = static_cast<std::size_t>(step.range.begin); i < static_cast<std::size_t>(step.range.end); ++i) {
    ASSERT_EQ(step.is_first, !simulation.is_scaled[rank][i]) << "rank " << rank << ", element " << i;
    if (step.is_first) simulation.vectors[rank][i] *= kScale;
    simulation.is_scaled[rank][i] = true;
  }
}

// One step of a rank where it can be done; receives take what is first in the wire.
bool advance(Simulation& simulation, std::size_t rank, std::size_t& next, bool scales) {
  const Plan& plan = simulation.plans[rank];
  if (next == plan.size()) return false;
  const Step& step = plan[next];
  const auto begin = static_cast<std::size_t>(step.range.begin), end = static_cast<std::size_t>(step.range.end);
  Vector& own = simulation.vectors[rank];
  const int self = static_cast<int>(rank);
  if (step.kind == Kind::send) {
    if (scales) scale_first(simulation, rank, step);
    simulation.wires[{self, step.peer}].emplace_back(own.begin() + step.range.begin, own.begin() + step.range.end);
    simulation.sent[rank] += step.range.numel();
    ++next;
    return true;
  }
  auto& wire = simulation.wires[{step.peer, self}];
  if (wire.empty()) return false;
  const Vector message = wire.front();
  wire.pop_front();
  EXPECT_EQ(message.size(), end - begin) << "rank " << rank << ", step " << next;
  if (message.size() != end - begin) return false;
  if (step.kind == Kind::receive_reduce && scales) scale_first(simulation, rank, step);
  for (std::size_t i = begin; i < end; ++i)
    own[i] = step.kind == Kind::receive ? message[i - begin] : message[i - begin] + own[i];
  ++next;
  return true;
}

// Fails where it stops before all are done, or with messages left over.
void carry_out(Simulation& simulation, bool scales) {
  const std::size_t size = simulation.plans.size();
  std::vector<std::size_t> next(size);
  bool has_moved = true;
  while (has_moved) {
    has_moved = false;
    for (std::size_t rank = 0; rank < size; ++rank)
      while (advance(simulation, rank, next[rank], scales)) has_moved = true;
  }
  for (std::size_t rank = 0; rank < size; ++rank) EXPECT_EQ(next[rank], simulation.plans[rank].size()) << "deadlock";
  for (const auto& [ends, wire] : simulation.wires) EXPECT_TRUE(wire.empty()) << ends.first << " to " << ends.second;
}

template <class MakePlan>
Simulation simulation_of(int size, std::int64_t numel, MakePlan make_plan) {
  Simulation simulation;
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int rank = 0; rank < size; ++rank) {
    simulation.plans.push_back(make_plan(rank));
    Vector vector(static_cast<std::size_t>(numel));
    for (float& value : vector) value = uniform(generator);
    simulation.vectors.push_back(std::move(vector));
  }
  simulation.is_scaled.assign(static_cast<std::size_t>(size), std::vector<bool>(static_cast<std::size_t>(numel)));
  simulation.sent.assign(static_cast<std::size_t>(size), 0);
  return simulation;
}

std::vector<double> scaled_sums(const std::vector<Vector>& vectors) {
  std::vector<double> sums(vectors[0].size());
  for (const Vector& vector : vectors)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(vector[i]) * kScale;
  return sums;
}

void expect_range(const Vector& vector, const std::vector<double>& expected, Range range) {
  for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end); ++i)
    ASSERT_NEAR(vector[i], expected[i], 1e-5) << i;
}

std::vector<std::int64_t> sizes_for(int ranks) { return {0, 1, ranks - 1, ranks, ranks + 1, 97, 1009, 5000}; }
constexpr std::int64_t kSegments[] = {1, 7, 64, 100000};

class Plans : public ::testing::TestWithParam<int> {};

TEST_P(Plans, AllReduceSumsWithTheSameBits) {
  const int size = GetParam();
  for (const auto plan_of : {ring_all_reduce, halving_doubling_all_reduce}) {
    for (const std::int64_t numel : sizes_for(size)) {
      for (const std::int64_t segment : kSegments) {
        SCOPED_TRACE(std::to_string(numel) + " elements in segments of " + std::to_string(segment));
        Simulation simulation =
            simulation_of(size, numel, [&](int rank) { return plan_of(rank, size, numel, segment); });
        const auto expected = scaled_sums(simulation.vectors);
        carry_out(simulation, true);
        if (size == 1) continue;  // an empty plan: the caller scales
        for (const Vector& vector : simulation.vectors) {
          expect_range(vector, expected, {0, numel});
          ASSERT_EQ(vector, simulation.vectors[0]);
        }
      }
    }
  }
}

TEST_P(Plans, ReduceScatterLeavesEachRankItsChunk) {
  const int size = GetParam();
  for (const std::int64_t numel : sizes_for(size)) {
    Simulation simulation =
        simulation_of(size, numel, [&](int rank) { return ring_reduce_scatter(rank, size, numel, 50); });
    const auto expected = scaled_sums(simulation.vectors);
    carry_out(simulation, true);
    for (int rank = 0; size > 1 && rank < size; ++rank)
      expect_range(simulation.vectors[static_cast<std::size_t>(rank)], expected, chunk_range(numel, size, rank));
  }
}

TEST_P(Plans, AllGatherBringsAllChunks) {
  const int size = GetParam();
  for (const std::int64_t numel : sizes_for(size)) {
    Simulation simulation =
        simulation_of(size, numel, [&](int rank) { return ring_all_gather(rank, size, numel, 50); });
    Vector expected;
    for (int rank = 0; rank < size; ++rank) {
      const Vector& vector = simulation.vectors[static_cast<std::size_t>(rank)];
      const Range range = chunk_range(numel, size, rank);
      expected.insert(expected.end(), vector.begin() + range.begin, vector.begin() + range.end);
    }
    carry_out(simulation, false);
    for (const Vector& vector : simulation.vectors) ASSERT_EQ(vector, expected);
  }
}

TEST_P(Plans, BroadcastsReachAllFromAnyRoot) {
  const int size = GetParam();
  for (const auto plan_of : {chain_broadcast, tree_broadcast}) {
    for (int root = 0; root < size; ++root) {
      for (const std::int64_t numel : {0, 1, 97}) {
        Simulation simulation =
            simulation_of(size, numel, [&](int rank) { return plan_of(rank, size, root, numel, 10); });
        const Vector expected = simulation.vectors[static_cast<std::size_t>(root)];
        carry_out(simulation, false);
        for (const Vector& vector : simulation.vectors) ASSERT_EQ(vector, expected) << "root " << root;
      }
    }
  }
}

TEST_P(Plans, RingSendsTheLeastPossible) {
  const int size = GetParam();
  const std::int64_t numel = 840 * size;
  const Simulation simulation = [&] {
    auto made = simulation_of(size, numel, [&](int rank) { return ring_all_reduce(rank, size, numel, 60); });
    carry_out(made, true);
    return made;
  }();
  for (const std::int64_t sent : simulation.sent) EXPECT_EQ(sent, 2 * (size - 1) * numel / size);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Plans, ::testing::Range(1, 10));

TEST(Plans, ChunksCoverVectorsBeyond32Bits) {
  const std::int64_t numel = std::int64_t{1} << 40;
  EXPECT_EQ(chunk_range(numel + 1, 3, 0).begin, 0);
  EXPECT_EQ(chunk_range(numel + 1, 3, 2).end, numel + 1);
  const std::int64_t segment = std::int64_t{1} << 32;
  const Plan plan = ring_all_reduce(1, 4, numel, segment);
  std::int64_t sent = 0;
  for (const Step& step : plan)
    if (step.kind == Kind::send) sent += step.range.numel();
  EXPECT_EQ(sent, 2 * 3 * (numel / 4));
}

TEST(Plans, ChoiceGoesFromDirectToRing) {
  EXPECT_EQ(choose_all_reduce(0, 2), AllReduceKind::direct);
  EXPECT_EQ(choose_all_reduce(0, 100), AllReduceKind::direct) << "an empty plan would not compare sizes";
  EXPECT_EQ(choose_all_reduce(4096, 4), AllReduceKind::direct);
  EXPECT_EQ(choose_all_reduce(4096, 64), AllReduceKind::halving_doubling);
  EXPECT_EQ(choose_all_reduce(25 << 20, 2), AllReduceKind::ring);
  EXPECT_EQ(choose_all_reduce(25 << 20, 64), AllReduceKind::ring);
}

}  // namespace
