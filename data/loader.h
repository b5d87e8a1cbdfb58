// Reads ahead: a thread of its own fills a short queue with batches while the caller computes.
//
// What it hands out are windows, the micro-steps of one update, because who synchronizes gradients must know which
// micro-step is the window's last, and how many rows (or other items) the mean of the loss is over, before the first
// one runs. A window's batches come one by one, so memory does not grow with their number.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "tandem/data/dataset.h"
#include "tandem/data/sampler.h"

namespace tandem::data {

class Loader;

struct LoaderOptions {
  std::int64_t accumulation_steps = 1;  ///< micro-steps of a window: K
  std::int64_t prefetch = 3;            ///< batches that may wait in the queue
  int threads = 1;                      ///< that read one batch; no number of them changes what is read
  core::Device device = core::kCpu;     ///< to which the loader's thread copies each batch before it is handed out
  /// What Window::items adds up; none: nothing. Called on the loader's
  /// thread, with the batch on the CPU. A window of more than `prefetch`
  /// micro-steps is then read twice, first to be counted.
  std::function<std::vector<double>(const Batch&)> items = {};
};

/// The batches of one window in their order, each handed out once: while one is used the next are read.
class MicroBatches {
 public:
  class Iterator;

  /// This many in all, the same on all ranks.
  std::int64_t size() const { return size_; }
  /// The next one, waited for if it is not there yet. Throws Error behind the last, and if the loader has gone on to
  /// another window; what reading threw is thrown here, too.
  Batch next() const;

  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Loader;
  MicroBatches(Loader& loader, const SamplerPosition& first, std::int64_t size)
      : loader_(&loader), first_(first), size_(size) {}

  Loader* loader_;
  SamplerPosition first_;  // which window it is
  std::int64_t size_;
};

/// What one update is computed from. Every rank has as many micro-batches as the others; at an epoch's end there may be
/// fewer than K, and some may have no rows. It must not outlive the loader.
struct Window {
  MicroBatches micro_batches;
  std::int64_t rows = 0;  ///< of all ranks and micro-steps together
  /// world size / rows, 1 / rows for a single rank: what a row's loss counts. Sums of losses times it, added up over
  /// the micro-batches and averaged over the ranks, as DistributedDataParallel does, are the mean over all rows.
  double row_weight = 0;
  std::vector<double> items;  ///< of this rank's micro-steps together: the sums of LoaderOptions::items
};

/// One thread at a time may use it. Destruction at any moment is fine.
class Loader {
 public:
  /// The sampler must have been made for the data set's size; its seed is also that of augmentation.
  /// Throws Error if it was not, and for options below 1.
  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, LoaderOptions options = {});

  /// Begins to read ahead, from the epoch's begin or, when a run is resumed, from within it. What was read ahead before
  /// is dropped.
  void begin_epoch(const SamplerPosition& position);

  /// The next window, waited for until its first batch is there; none at the epoch's end. What is left of the window
  /// before is dropped. What reading threw is thrown here, from then on at each call, until another epoch begins.
  /// Throws Error before the first begin_epoch().
  std::optional<Window> next_window();

  /// Behind the last window that was handed out: begin_epoch() there continues with the next.
  const SamplerPosition& position() const { return position_; }

 private:
  friend class MicroBatches;

  struct Item {
    Batch batch;
    std::vector<double> window_items;  // in a window's first: Window::items
  };

  void read_ahead(const std::stop_token& stop, Sampler sampler);
  // Both give false when asked to stop: the next window into the queue, one batch into it once there is room.
  bool read_window(const std::stop_token& stop, Sampler& sampler);
  bool push(const std::stop_token& stop, Item item);
  Item read(Sampler& sampler) const;

  // Micro-steps of the window that begins there; 0 at the epoch's end.
  std::int64_t window_size(const SamplerPosition& position) const;
  // Waits until the queue has an item; throws what reading threw instead.
  std::unique_lock<std::mutex> wait_for_item();
  Batch pop();
  Batch next_batch(const SamplerPosition& window);

  std::shared_ptr<const Dataset> dataset_;
  Sampler sampler_;
  LoaderOptions options_;
  SamplerPosition position_;
  SamplerPosition window_;  // where the one begins that was handed out last
  std::int64_t left_ = 0;   // of its batches
  bool begun_ = false;

  std::mutex mutex_;  // guards the three below
  std::deque<Item> queue_;
  bool finished_ = false;
  std::exception_ptr error_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // the last member: it is stopped and joined before the others go
};

/// For `for (const Batch& batch : window.micro_batches)`.
class MicroBatches::Iterator {
 public:
  const Batch& operator*() const { return *batch_; }
  Iterator& operator++() {
    advance();
    return *this;
  }
  bool operator==(std::default_sentinel_t) const { return !batch_; }

 private:
  friend class MicroBatches;
  explicit Iterator(const MicroBatches& all) : all_(&all), left_(all.size()) { advance(); }

  void advance() {
    batch_.reset();
    if (left_-- > 0) batch_ = all_->next();
  }

  const MicroBatches* all_;
  std::int64_t left_;
  std::optional<Batch> batch_;
};

inline MicroBatches::Iterator MicroBatches::begin() const { return Iterator(*this); }

}  // namespace tandem::data
