#include "tandem/data/loader.h"

#include <utility>

#include "tandem/core/parallel.h"
#include "tandem/core/recorder.h"
#include "tandem/core/start_thread.h"

namespace tandem::data {

Loader::Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options)
    : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(options) {
  if (sampler_.options().samples != dataset_->size())
    core::fail("loader: the sampler is for {} samples, the data set has {}", sampler_.options().samples,
               dataset_->size());
  if (options.accumulation_steps < 1)
    core::fail("loader: {} accumulation steps, needed 1 or more", options.accumulation_steps);
  if (options.prefetch < 1) core::fail("loader: prefetch of {} batches, needed 1 or more", options.prefetch);
  if (options.threads < 1) core::fail("loader: {} threads, needed 1 or more", options.threads);
}

void Loader::begin_epoch(const SamplerPosition& position) {
  sampler_.seek(position);  // may throw: before anything changes
  thread_ = {};             // stopped and joined: nobody else is here now
  queue_.clear();
  finished_ = false;
  error_ = nullptr;
  position_ = position;
  begun_ = true;
  thread_ = core::start_thread("that reads ahead", [this] {
    return std::jthread([this, sampler = sampler_](const std::stop_token& stop) { read_ahead(stop, sampler); });
  });
}

void Loader::read_ahead(const std::stop_token& stop, Sampler sampler) {
  core::set_num_threads(options_.threads);  // the others belong to the model
  const EpochContext context{.seed = sampler.options().seed, .epoch = sampler.position().epoch};
  std::exception_ptr error;
  try {
    while (const std::optional<MicroStep> share = sampler.next()) {
      Item item{.batch = {}, .rows = share->rows};
      {
        const core::RecordScope scope("read_batch", "data");
        item.batch = dataset_->read(share->indices, context);
      }
      if (!push(stop, std::move(item))) return;
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  finished_ = true;
  error_ = error;
  changed_.notify_all();
}

bool Loader::push(const std::stop_token& stop, Item item) {
  std::unique_lock lock(mutex_);
  const auto room = [this] { return static_cast<std::int64_t>(queue_.size()) < options_.prefetch; };
  if (!changed_.wait(lock, stop, room) || stop.stop_requested()) return false;
  queue_.push_back(std::move(item));
  changed_.notify_all();
  return true;
}

std::optional<Loader::Item> Loader::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !queue_.empty() || finished_; });
  if (queue_.empty()) {
    if (error_) std::rethrow_exception(error_);
    return std::nullopt;
  }
  Item item = std::move(queue_.front());
  queue_.pop_front();
  changed_.notify_all();
  return item;
}

std::optional<Window> Loader::next_window() {
  if (!begun_) core::fail("loader: begin_epoch() was not called");
  Window window;
  while (static_cast<std::int64_t>(window.micro_batches.size()) < options_.accumulation_steps) {
    std::optional<Item> item = pop();
    if (!item) break;
    window.micro_batches.push_back(std::move(item->batch));
    window.rows += item->rows;
  }
  if (window.micro_batches.empty()) return std::nullopt;
  position_.micro_step += static_cast<std::int64_t>(window.micro_batches.size());
  return window;
}

}  // namespace tandem::data
