#include "tandem/data/sampler.h"

#include <algorithm>
#include <map>

#include "tests/data/temporary_folder.h"

namespace tandem::data {
namespace {

using Indices = std::vector<std::int64_t>;

std::vector<MicroStep> epoch_of(Sampler& sampler, std::uint32_t epoch) {
  sampler.seek({.epoch = epoch});
  std::vector<MicroStep> steps;
  while (auto step = sampler.next()) steps.push_back(std::move(*step));
  return steps;
}

Indices flat(const std::vector<MicroStep>& steps) {
  Indices all;
  for (const MicroStep& step : steps) all.insert(all.end(), step.indices.begin(), step.indices.end());
  return all;
}

TEST(Sampler, OneRankInOrder) {
  Sampler sampler({.samples = 7, .batch_size = 3});
  const auto steps = epoch_of(sampler, 5);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].indices, (Indices{0, 1, 2}));
  EXPECT_EQ(steps[2].indices, (Indices{6}));
  EXPECT_EQ(steps[2].rows, 1);
}

TEST(Sampler, RanksTakeEveryWthRow) {
  Sampler sampler({.samples = 14, .batch_size = 2, .rank = 1, .world_size = 3});
  const auto steps = epoch_of(sampler, 0);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].indices, (Indices{1, 4}));
  EXPECT_EQ(steps[1].indices, (Indices{7, 10}));
  EXPECT_EQ(steps[2].indices, (Indices{13}));  // rows 12 and 13 are left over: ranks 0 and 1 have one each, rank 2 none
  EXPECT_EQ(steps[2].rows, 2);
}

// Over all ranks: every row once per epoch, and each micro-step covers the rows that one rank with the batch W*B sees.
TEST(Sampler, EveryRowExactlyOnceAtAnyWorldSize) {
  for (const bool shuffle : {false, true})
    for (const std::int64_t samples : {0, 1, 2, 5, 12, 13, 23, 24, 25, 97})
      for (const std::int64_t batch_size : {1, 2, 3, 8, 200})
        for (const int world_size : {1, 2, 3, 4, 7}) {
          SCOPED_TRACE(fmt::format("{} samples, B {}, W {}, shuffle {}", samples, batch_size, world_size, shuffle));
          SamplerOptions options{
              .samples = samples, .batch_size = batch_size * world_size, .shuffle = shuffle, .seed = 3};
          Sampler one(options);
          const auto expected = epoch_of(one, 2);
          options.batch_size = batch_size;
          options.world_size = world_size;
          std::vector<Indices> of_all(expected.size());
          for (options.rank = 0; options.rank < world_size; ++options.rank) {
            Sampler sampler(options);
            EXPECT_EQ(sampler.micro_steps(), static_cast<std::int64_t>(expected.size()));
            const auto steps = epoch_of(sampler, 2);
            ASSERT_EQ(steps.size(), expected.size());
            for (std::size_t m = 0; m < steps.size(); ++m) {
              EXPECT_EQ(steps[m].rows, expected[m].rows);
              EXPECT_LE(steps[m].indices.size(), static_cast<std::size_t>(batch_size));
              for (std::size_t i = 0; i < steps[m].indices.size(); ++i)
                EXPECT_EQ(steps[m].indices[i], expected[m].indices[i * static_cast<std::size_t>(world_size) +
                                                                   static_cast<std::size_t>(options.rank)]);
              of_all[m].insert(of_all[m].end(), steps[m].indices.begin(), steps[m].indices.end());
            }
          }
          Indices all;
          for (std::size_t m = 0; m < of_all.size(); ++m) {
            EXPECT_EQ(static_cast<std::int64_t>(of_all[m].size()), expected[m].rows);
            all.insert(all.end(), of_all[m].begin(), of_all[m].end());
          }
          std::sort(all.begin(), all.end());
          ASSERT_EQ(static_cast<std::int64_t>(all.size()), samples);
          for (std::int64_t i = 0; i < samples; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
        }
}

TEST(Sampler, OrderIsAFunctionOfSeedAndEpoch) {
  const SamplerOptions options{.samples = 100, .batch_size = 7, .shuffle = true, .seed = 1};
  Sampler a(options), b(options);
  const Indices third = flat(epoch_of(a, 3));
  epoch_of(b, 1);
  EXPECT_EQ(flat(epoch_of(b, 3)), third);
  EXPECT_NE(flat(epoch_of(b, 4)), third);
  Sampler other({.samples = 100, .batch_size = 7, .shuffle = true, .seed = 2});
  EXPECT_NE(flat(epoch_of(other, 3)), third);
  Indices sorted(100);
  for (std::size_t i = 0; i < 100; ++i) sorted[i] = static_cast<std::int64_t>(i);
  EXPECT_NE(third, sorted);
}

TEST(Sampler, ResumesAtItsPosition) {
  const SamplerOptions options{.samples = 50, .batch_size = 4, .rank = 1, .world_size = 2, .shuffle = true};
  Sampler undisturbed(options);
  undisturbed.seek({.epoch = 2});
  for (int i = 0; i < 3; ++i) undisturbed.next();
  Sampler resumed(options);
  resumed.seek(undisturbed.position());
  EXPECT_EQ(resumed.position(), (SamplerPosition{.epoch = 2, .micro_step = 3}));
  while (const auto expected = undisturbed.next()) EXPECT_EQ(resumed.next()->indices, expected->indices);
  EXPECT_FALSE(resumed.next());
  EXPECT_EQ(resumed.position(), (SamplerPosition{.epoch = 2, .micro_step = 7}));
  resumed.seek(resumed.position());
  EXPECT_FALSE(resumed.next());
}

TEST(Sampler, WrongOptions) {
  expect_contains(error_of([] { Sampler({.samples = -1}); }), "sampler: -1 samples");
  expect_contains(error_of([] { Sampler({.samples = 1, .batch_size = 0}); }), "batch size 0, needed 1 or more");
  expect_contains(error_of([] { Sampler({.samples = 1, .rank = 2, .world_size = 2}); }),
                  "rank 2 of world size 2, needed 0 to 1");
  expect_contains(error_of([] { Sampler({.samples = 1, .batch_size = std::int64_t{1} << 62, .world_size = 4}); }),
                  "overflows");
  Sampler sampler({.samples = 10, .batch_size = 5});
  expect_contains(error_of([&] { sampler.seek({.micro_step = 3}); }), "micro-step 3 of an epoch of 2");
}

}  // namespace
}  // namespace tandem::data
