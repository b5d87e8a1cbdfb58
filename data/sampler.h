// Which samples a rank reads, and when: a plan that every rank can compute alone.
//
// One epoch is one order of all samples, a function of (seed, epoch) only: the same for every number of ranks.
// Micro-step m of W ranks with B rows each covers rows [m*W*B, (m+1)*W*B) of it, and rank r takes every W-th of them,
// from the r-th on. So W ranks see in one micro-step what one rank with W*B rows sees. Rows left over at the end are
// one smaller micro-step, in which a rank may have fewer rows or none; nothing is padded, so every sample counts
// exactly once per epoch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::data {

struct SamplerOptions {
  std::int64_t samples = 0;      ///< of the whole data set
  std::int64_t batch_size = 64;  ///< rows of one rank's micro-step: B
  int rank = 0;
  int world_size = 1;
  bool shuffle = false;    ///< else the data set's own order, every epoch
  std::uint64_t seed = 0;  ///< the same on every rank
};

/// How far a run has come; what a checkpoint keeps of the sampler.
struct SamplerPosition {
  std::uint32_t epoch = 0;
  std::int64_t micro_step = 0;  ///< of this epoch, the next one to come

  bool operator==(const SamplerPosition&) const = default;
};

/// One rank's share of one micro-step.
struct MicroStep {
  std::vector<std::int64_t> indices;  ///< numbers of samples
  std::int64_t rows = 0;              ///< of all ranks together
};

class Sampler {
 public:
  /// Throws Error for a negative number of samples, a batch size below 1, or a rank that is not in [0, world size).
  explicit Sampler(const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }
  /// Micro-steps of an epoch, the same for all ranks: samples / (W*B), rounded up.
  std::int64_t micro_steps() const;
  /// Of all ranks together, in `count` micro-steps from `first` on, which an epoch must have.
  std::int64_t rows(std::int64_t first, std::int64_t count) const;

  /// Goes to any place of any epoch, as when a run is resumed. Throws Error where an epoch has no such micro-step;
  /// its end, micro_steps(), is allowed.
  void seek(const SamplerPosition& position);
  const SamplerPosition& position() const { return position_; }
  /// The share at the position, which moves on. None at the epoch's end: seek to the next one.
  std::optional<MicroStep> next();

 private:
  SamplerOptions options_;
  SamplerPosition position_;
  std::vector<std::int64_t> order_;  // of the epoch, empty where it is not shuffled
  std::int64_t global_batch_ = 0;    // W*B
};

}  // namespace tandem::data
