// Reads ahead: a thread of its own fills a short queue with batches while the caller computes.
//
// What it hands out are windows, the micro-steps of one update, because who synchronizes gradients must know which
// micro-step is the window's last, and how many rows the mean of the loss is over, before the first one runs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "tandem/data/dataset.h"
#include "tandem/data/sampler.h"

namespace tandem::data {

struct LoaderOptions {
  std::int64_t accumulation_steps = 1;  ///< micro-steps of a window: K
  std::int64_t prefetch = 3;            ///< batches that may wait in the queue
  int threads = 1;                      ///< that read one batch; no number of them changes what is read
};

/// What one update is computed from. Every rank has as many micro-batches as the others; at an epoch's end there may be
/// fewer than K, and some may have no rows.
struct Window {
  std::vector<Batch> micro_batches;
  std::int64_t rows = 0;  ///< of all ranks and micro-steps together
  /// world size / rows, 1 / rows for a single rank: what a row's loss counts. Sums of losses times it, added up over the
  /// micro-batches and averaged over the ranks, as DistributedDataParallel does, are the mean over all rows.
  double row_weight = 0;
};

/// One thread at a time may use it. Destruction at any moment is fine.
class Loader {
 public:
  /// The sampler must have been made for the data set's size; its seed is also that of augmentation.
  /// Throws Error where it was not, and for options below 1.
  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options = {});

  /// Begins to read ahead, from the epoch's begin or, when a run is resumed, from within it. What was read ahead before
  /// is dropped.
  void begin_epoch(const SamplerPosition& position);

  /// The next window, waited for where it is not there yet; none at the epoch's end. What reading threw is thrown here,
  /// from then on at each call, until another epoch begins. Throws Error before the first begin_epoch().
  std::optional<Window> next_window();

  /// Behind the last window that was handed out: begin_epoch() there continues with the next.
  const SamplerPosition& position() const { return position_; }

 private:
  struct Item {
    Batch batch;
    std::int64_t rows = 0;
  };

  void read_ahead(const std::stop_token& stop, Sampler sampler);
  // Waits for room; false when asked to stop.
  bool push(const std::stop_token& stop, Item item);
  std::optional<Item> pop();

  std::shared_ptr<const Dataset> dataset_;
  Sampler sampler_;
  LoaderOptions options_;
  SamplerPosition position_;
  bool begun_ = false;

  std::mutex mutex_;  // guards the three below
  std::deque<Item> queue_;
  bool finished_ = false;
  std::exception_ptr error_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // the last member: it is stopped and joined before the others go
};

}  // namespace tandem::data
