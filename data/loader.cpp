#include "tandem/data/loader.h"

#include <algorithm>
#include <utility>

#include "tandem/core/parallel.h"
#include "tandem/core/recorder.h"
#include "tandem/core/start_thread.h"

namespace tandem::data {

Loader::Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, LoaderOptions options)
    : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(std::move(options)) {
  if (sampler_.options().samples != dataset_->size())
    core::fail("loader: the sampler is for {} samples, the data set has {}", sampler_.options().samples,
               dataset_->size());
  if (options_.accumulation_steps < 1)
    core::fail("loader: {} accumulation steps, needed 1 or more", options_.accumulation_steps);
  if (options_.prefetch < 1) core::fail("loader: prefetch of {} batches, needed 1 or more", options_.prefetch);
  if (options_.threads < 1) core::fail("loader: {} threads, needed 1 or more", options_.threads);
}

void Loader::begin_epoch(const SamplerPosition& position) {
  sampler_.seek(position);  // may throw: before anything changes
  thread_ = {};             // stopped and joined: nobody else is here now
  queue_.clear();
  finished_ = false;
  error_ = nullptr;
  position_ = position;
  left_ = 0;
  begun_ = true;
  thread_ = core::start_thread("that reads ahead", [this] {
    return std::jthread([this, sampler = sampler_](const std::stop_token& stop) { read_ahead(stop, sampler); });
  });
}

void Loader::read_ahead(const std::stop_token& stop, Sampler sampler) {
  core::set_num_threads(options_.threads);  // the others belong to the model
  std::exception_ptr error;
  try {
    while (window_size(sampler.position()) > 0)
      if (!read_window(stop, sampler)) return;
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  finished_ = true;
  error_ = error;
  changed_.notify_all();
}

// Counted before its first batch is handed out. Only as much of it is kept meanwhile as may wait anyway, and the rest
// is read again: reading what has items of its own, text, costs little beside what is computed from it.
bool Loader::read_window(const std::stop_token& stop, Sampler& sampler) {
  const SamplerPosition begin = sampler.position();
  const std::int64_t size = window_size(begin);
  std::deque<Item> kept;
  if (options_.items) {
    std::vector<double> sums;
    for (std::int64_t m = 0; m < size && !stop.stop_requested(); ++m) {
      Item item = read(sampler);
      const std::vector<double> items = options_.items(item.batch);
      sums.resize(items.size());
      for (std::size_t i = 0; i < items.size(); ++i) sums[i] += items[i];
      if (m < options_.prefetch) kept.push_back(std::move(item));
    }
    if (stop.stop_requested()) return false;
    kept.front().window_items = std::move(sums);
    sampler.seek({.epoch = begin.epoch, .micro_step = begin.micro_step + std::ssize(kept)});
  }
  for (Item& item : kept)
    if (!push(stop, std::move(item))) return false;
  while (sampler.position().micro_step < begin.micro_step + size)
    if (!push(stop, read(sampler))) return false;
  return true;
}

Loader::Item Loader::read(Sampler& sampler) const {
  const core::RecordScope scope("read_batch", "data");
  const EpochContext context{.seed = sampler.options().seed, .epoch = sampler.position().epoch};
  return {.batch = dataset_->read(sampler.next()->indices, context), .window_items = {}};
}

std::int64_t Loader::window_size(const SamplerPosition& position) const {
  return std::min(options_.accumulation_steps, sampler_.micro_steps() - position.micro_step);
}

bool Loader::push(const std::stop_token& stop, Item item) {
  item.batch = item.batch.to(options_.device);
  std::unique_lock lock(mutex_);
  const auto room = [this] { return static_cast<std::int64_t>(queue_.size()) < options_.prefetch; };
  if (!changed_.wait(lock, stop, room) || stop.stop_requested()) return false;
  queue_.push_back(std::move(item));
  changed_.notify_all();
  return true;
}

std::unique_lock<std::mutex> Loader::wait_for_item() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !queue_.empty() || finished_; });
  if (queue_.empty()) std::rethrow_exception(error_);  // it ends without one at the epoch's end only
  return lock;
}

Batch Loader::pop() {
  const auto lock = wait_for_item();
  Batch batch = std::move(queue_.front().batch);
  queue_.pop_front();
  --left_;
  changed_.notify_all();
  return batch;
}

std::optional<Window> Loader::next_window() {
  if (!begun_) core::fail("loader: begin_epoch() was not called");
  while (left_ > 0) pop();
  const std::int64_t size = window_size(position_);
  if (size == 0) return std::nullopt;
  std::vector<double> items;
  {
    const auto lock = wait_for_item();
    items = std::move(queue_.front().window_items);
  }
  window_ = position_;
  left_ = size;
  position_.micro_step += size;
  const std::int64_t rows = sampler_.rows(window_.micro_step, size);
  return Window{.micro_batches = {*this, window_, size},
                .rows = rows,
                .row_weight = sampler_.options().world_size / static_cast<double>(rows),
                .items = std::move(items)};
}

Batch Loader::next_batch(const SamplerPosition& window) {
  if (window != window_) core::fail("loader: a batch of a window that is over: next_window() was called since");
  if (left_ == 0) core::fail("loader: the window has no more batches");
  return pop();
}

Batch MicroBatches::next() const { return loader_->next_batch(first_); }

}  // namespace tandem::data
