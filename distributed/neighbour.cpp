#include "tandem/distributed/neighbour.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "tandem/distributed/beat.h"

namespace tandem::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kNow{0};

}  // namespace

Neighbour::Neighbour(int rank, int size, Milliseconds beat, Milliseconds stale)
    : rank_(rank),
      size_(size),
      beat_(beat),
      stale_(stale),
      looked_(Clock::now()),
      has_left_(static_cast<std::size_t>(size)) {}

std::optional<Failure> Neighbour::look(Store& store) {
  int neighbour = rank_;
  std::optional<std::string> beat;
  for (int i = 1; i < size_ && !beat; ++i) {
    neighbour = (rank_ + i) % size_;
    if (!has_left_[static_cast<std::size_t>(neighbour)]) beat = store.get(beat_key(neighbour), kNow);
  }
  const auto now = Clock::now();
  // Silence is counted by this rank's clock, so it counts only while this rank itself was awake: one that was stopped
  // or starved, or whose store was, would see everybody silent.
  const bool was_late = now - std::exchange(looked_, now) > 3 * beat_;
  if (!beat) return std::nullopt;
  if (was_late || neighbour != neighbour_ || *beat != last_beat_) {
    neighbour_ = neighbour;
    last_beat_ = *beat;
    changed_ = now;
    return std::nullopt;
  }
  if (now - changed_ < std::min(2 * beat_, stale_)) return std::nullopt;
  if (store.get(goodbye_key(neighbour), kNow)) {
    has_left_[static_cast<std::size_t>(neighbour)] = true;
    return std::nullopt;
  }
  if (now - changed_ < stale_) return std::nullopt;
  const auto last = Beat::decode(*beat);
  return Failure{neighbour, rank_,
                 fmt::format("rank {} does not respond: no heartbeat for {:g} s ({})", neighbour, in_seconds(stale_),
                             last ? last->describe() : "its last one cannot be read")};
}

}  // namespace tandem::distributed
