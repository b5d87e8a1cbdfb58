#include "tandem/data/loader.h"

#include <atomic>
#include <chrono>

#include "tandem/core/parallel.h"
#include "tandem/data/labelled_dataset.h"
#include "tests/data/temporary_folder.h"

namespace tandem::data {
namespace {

// Sample i holds i and the epoch. Fails at one sample, waits before each batch, counts them.
class Numbers final : public LabelledDataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  core::Shape sample_shape() const override {
    if (fail_after >= 0 && batches > fail_after) core::fail("numbers: broken");
    return {2};
  }
  std::int64_t classes() const override { return 1; }

  std::int64_t fail_after = -1;
  std::chrono::milliseconds delay{0};
  mutable std::atomic<std::int64_t> batches{0};
  mutable std::atomic<int> threads{0};  // that a batch may use

 protected:
  void read_into(std::span<const std::int64_t> indices, const EpochContext& context, float* input,
                 std::int64_t* target) const override {
    ++batches;
    threads = core::num_threads();
    std::this_thread::sleep_for(delay);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      input[2 * i] = static_cast<float>(indices[i]);
      input[2 * i + 1] = static_cast<float>(context.epoch + 100 * context.seed);
      target[i] = indices[i];
    }
  }

 private:
  std::int64_t size_;
};

std::vector<std::int64_t> targets(const Batch& batch) { return batch.target.to_vector<std::int64_t>(); }

std::vector<std::int64_t> targets(const Window& window) {
  std::vector<std::int64_t> all;
  for (const Batch& batch : window.micro_batches) {
    const auto part = targets(batch);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(Loader, WindowsOfWholeMicroSteps) {
  const auto numbers = std::make_shared<Numbers>(23);
  Loader loader(numbers, Sampler({.samples = 23, .batch_size = 2, .world_size = 2, .seed = 1}),
                {.accumulation_steps = 4});
  for (const std::uint32_t epoch : {0u, 7u}) {
    loader.begin_epoch({.epoch = epoch});
    const auto first = loader.next_window();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->micro_batches.size(), 4u);
    EXPECT_EQ(first->rows, 16);
    EXPECT_EQ(targets(first->micro_batches.next()), (std::vector<std::int64_t>{0, 2}));
    EXPECT_EQ(first->micro_batches.next().input.to_vector<float>(),
              (std::vector<float>{4, static_cast<float>(100 + epoch), 6, static_cast<float>(100 + epoch)}));
    EXPECT_EQ(targets(first->micro_batches.next()), (std::vector<std::int64_t>{8, 10}));
    EXPECT_EQ(targets(first->micro_batches.next()), (std::vector<std::int64_t>{12, 14}));
    EXPECT_EQ(loader.position(), (SamplerPosition{.epoch = epoch, .micro_step = 4}));
    const auto second = loader.next_window();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->micro_batches.size(), 2u);
    EXPECT_EQ(second->rows, 7);
    EXPECT_EQ(targets(*second), (std::vector<std::int64_t>{16, 18, 20, 22}));
    EXPECT_FALSE(loader.next_window());
    EXPECT_FALSE(loader.next_window());
  }
}

TEST(Loader, ARankWithoutRowsHasAnEmptyBatch) {
  Loader loader(std::make_shared<Numbers>(5), Sampler({.samples = 5, .batch_size = 1, .rank = 3, .world_size = 4}),
                {.accumulation_steps = 2});
  loader.begin_epoch({});
  const auto window = loader.next_window();
  ASSERT_TRUE(window);
  ASSERT_EQ(window->micro_batches.size(), 2u);
  EXPECT_EQ(window->rows, 5);
  EXPECT_EQ(window->row_weight, 4. / 5);
  window->micro_batches.next();
  const Batch second = window->micro_batches.next();
  EXPECT_EQ(second.input.shape(), (core::Shape{0, 2}));
  EXPECT_EQ(second.target.shape(), (core::Shape{0}));
}

TEST(Loader, ResumesBehindTheLastWindow) {
  const auto numbers = std::make_shared<Numbers>(40);
  const Sampler sampler({.samples = 40, .batch_size = 3, .shuffle = true, .seed = 5});
  Loader undisturbed(numbers, sampler, {.accumulation_steps = 2}), resumed(numbers, sampler, {.accumulation_steps = 2});
  undisturbed.begin_epoch({.epoch = 1});
  undisturbed.next_window();
  undisturbed.next_window();
  resumed.begin_epoch(undisturbed.position());
  while (const auto expected = undisturbed.next_window())
    EXPECT_EQ(targets(*resumed.next_window()), targets(*expected));
  EXPECT_FALSE(resumed.next_window());
}

TEST(Loader, ReadsAheadButNotFurtherThanTheQueue) {
  const auto numbers = std::make_shared<Numbers>(100);
  Loader loader(numbers, Sampler({.samples = 100, .batch_size = 1}), {.prefetch = 3});
  loader.begin_epoch({});
  for (int i = 0; i < 1000 && numbers->batches < 4; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(numbers->batches, 4);  // three wait, the fourth has no room yet
}

// However many micro-steps a window has: it is handed out while it is read.
TEST(Loader, AWindowIsNeverHeldWhole) {
  for (const bool is_counted : {false, true}) {
    const auto numbers = std::make_shared<Numbers>(1000);
    LoaderOptions options{.accumulation_steps = 1000, .prefetch = 3};
    if (is_counted)
      options.items = [](const Batch& batch) { return std::vector{double(batch.target.data<std::int64_t>()[0])}; };
    Loader loader(numbers, Sampler({.samples = 1000, .batch_size = 1}), options);
    loader.begin_epoch({});
    const auto window = loader.next_window();
    ASSERT_TRUE(window);
    EXPECT_EQ(window->rows, 1000);
    std::int64_t taken = 0;
    for (const Batch& batch : window->micro_batches) {
      EXPECT_EQ(targets(batch), (std::vector{taken++}));
      const std::int64_t counted = is_counted ? 1000 - 3 : 0;  // read, but not kept
      EXPECT_LE(numbers->batches, taken + 3 + 1 + counted);
    }
    EXPECT_EQ(taken, 1000);
  }
}

TEST(Loader, StoppedAtAnyMoment) {
  const auto numbers = std::make_shared<Numbers>(100);
  const Sampler sampler({.samples = 100, .batch_size = 1});
  for (int windows = 0; windows < 6; ++windows) {
    Loader loader(numbers, sampler);
    loader.begin_epoch({});
    for (int i = 0; i < windows; ++i) ASSERT_TRUE(loader.next_window());
    loader.begin_epoch({.epoch = 1, .micro_step = 50});  // in the middle of an epoch, what was read ahead is dropped
    EXPECT_EQ(targets(*loader.next_window()), (std::vector<std::int64_t>{50}));
  }
  numbers->delay = std::chrono::milliseconds(5);
  Loader slow(numbers, sampler);
  slow.begin_epoch({});
}

TEST(Loader, ExceptionsReachTheCallerInTheirTurn) {
  const auto numbers = std::make_shared<Numbers>(10);
  numbers->fail_after = 3;
  Loader loader(numbers, Sampler({.samples = 10, .batch_size = 1}), {.accumulation_steps = 2});
  loader.begin_epoch({});
  EXPECT_EQ(loader.next_window()->rows, 2);
  EXPECT_EQ(loader.next_window()->rows, 2);
  for (int i = 0; i < 2; ++i) expect_contains(error_of([&] { loader.next_window(); }), "numbers: broken");
  EXPECT_EQ(loader.position().micro_step, 4);
  numbers->batches = 0;
  loader.begin_epoch({});
  EXPECT_EQ(loader.next_window()->rows, 2);
}

TEST(Loader, ReadsWithItsOwnNumberOfThreads) {
  const auto numbers = std::make_shared<Numbers>(10);
  const int callers = core::num_threads();
  for (const int threads : {1, 3}) {
    Loader loader(numbers, Sampler({.samples = 10}), {.threads = threads});
    loader.begin_epoch({});
    EXPECT_TRUE(loader.next_window());
    EXPECT_EQ(numbers->threads, threads);
  }
  EXPECT_EQ(core::num_threads(), callers);
}

TEST(Loader, WrongUse) {
  const auto numbers = std::make_shared<Numbers>(10);
  const Sampler sampler({.samples = 10});
  expect_contains(error_of([&] { Loader(numbers, Sampler({.samples = 9})); }), "is for 9 samples, the data set has 10");
  expect_contains(error_of([&] { Loader(numbers, sampler, {.accumulation_steps = 0}); }), "0 accumulation steps");
  expect_contains(error_of([&] { Loader(numbers, sampler, {.prefetch = 0}); }), "prefetch of 0");
  expect_contains(error_of([&] { Loader(numbers, sampler, {.threads = 0}); }), "loader: 0 threads, needed 1 or more");
  Loader loader(numbers, sampler);
  expect_contains(error_of([&] { loader.next_window(); }), "begin_epoch() was not called");
  loader.begin_epoch({});
  expect_contains(error_of([&] { loader.begin_epoch({.micro_step = 2}); }), "micro-step 2 of an epoch of 1");
  EXPECT_TRUE(loader.next_window());
}

TEST(Loader, ItemsAreCountedBeforeAWindowBegins) {
  const auto numbers = std::make_shared<Numbers>(23);
  for (const std::int64_t prefetch : {1, 2, 3, 8})
    for (const int rank : {0, 1}) {
      LoaderOptions options{.accumulation_steps = 4, .prefetch = prefetch};
      options.items = [](const Batch& batch) {
        double sum = 0;
        for (const std::int64_t target : targets(batch)) sum += static_cast<double>(target);
        return std::vector{sum, static_cast<double>(batch.rows())};
      };
      Loader loader(numbers, Sampler({.samples = 23, .batch_size = 2, .rank = rank, .world_size = 2}), options);
      loader.begin_epoch({});
      const auto first = loader.next_window();
      EXPECT_EQ(first->items, (std::vector<double>{rank == 0 ? 56.0 : 64.0, 8}));  // 0 + 2 + ... + 14, 1 + 3 + ... + 15
      EXPECT_EQ(targets(*first).back(), 14 + rank);
      const auto second = loader.next_window();
      EXPECT_EQ(second->items, (rank == 0 ? std::vector<double>{16 + 18 + 20 + 22, 4} : std::vector<double>{57, 3}));
      EXPECT_EQ(targets(*second).size(), rank == 0 ? 4u : 3u);
      EXPECT_FALSE(loader.next_window());
    }
}

TEST(Loader, WhatIsLeftOfAWindowIsDropped) {
  const auto numbers = std::make_shared<Numbers>(8);
  Loader loader(numbers, Sampler({.samples = 8, .batch_size = 1}), {.accumulation_steps = 3});
  loader.begin_epoch({});
  const auto first = loader.next_window();
  EXPECT_EQ(targets(first->micro_batches.next()), (std::vector<std::int64_t>{0}));
  const auto second = loader.next_window();
  EXPECT_EQ(error_of([&] { first->micro_batches.next(); }),
            "loader: a batch of a window that is over: next_window() was called since");
  EXPECT_EQ(targets(*second), (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(error_of([&] { second->micro_batches.next(); }), "loader: the window has no more batches");
}

TEST(Loader, BatchesAreHandedOutOnTheirDevice) {
  const auto numbers = std::make_shared<Numbers>(6);
  const auto first_target = [](const Batch& batch) { return std::vector{static_cast<double>(targets(batch)[0])}; };
  Loader loader(numbers, Sampler({.samples = 6, .batch_size = 3}), {.device = core::kGuarded, .items = first_target});
  loader.begin_epoch({});
  std::int64_t first = 0;
  while (const auto window = loader.next_window()) {
    EXPECT_EQ(window->items, std::vector{static_cast<double>(first)});
    for (const Batch& batch : window->micro_batches) {
      EXPECT_EQ(batch.input.device(), core::kGuarded);
      EXPECT_EQ(targets(batch), (std::vector<std::int64_t>{first, first + 1, first + 2}));
      EXPECT_FALSE(batch.predicted_positions.defined()) << "these are classes";
    }
    first += 3;
  }
  EXPECT_EQ(first, 6);
}

TEST(Loader, AnEmptyDataSetHasNoWindows) {
  Loader loader(std::make_shared<Numbers>(0), Sampler({.samples = 0}));
  loader.begin_epoch({});
  EXPECT_FALSE(loader.next_window());
}

}  // namespace
}  // namespace tandem::data
