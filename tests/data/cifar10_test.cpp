#include "tandem/data/cifar10.h"

#include <set>

#include "tandem/core/parallel.h"
#include "tests/data/samples.h"

namespace tandem::data {
namespace {

using core::Shape;

// A record per label given, of bytes that differ in every pixel and channel.
std::string cifar_records(const std::vector<int>& labels) {
  std::string bytes;
  for (std::size_t record = 0; record < labels.size(); ++record) {
    bytes += static_cast<char>(labels[record]);
    for (std::size_t i = 0; i < 3072; ++i)
      bytes += static_cast<char>(1 + (i * 7 + i / 32 * 11 + i / 1024 * 50 + record) % 255);
  }
  return bytes;
}

void put_cifar(const TemporaryFolder& folder) {
  for (int i = 1; i <= 5; ++i) folder.put(fmt::format("data_batch_{}.bin", i), cifar_records({i, 9}));
  folder.put("test_batch.bin", cifar_records({3, 4, 5}));
}

TEST(Cifar10, Reads) {
  const TemporaryFolder folder;
  put_cifar(folder);
  const Cifar10 train(folder.path(), Split::train), test(folder.path(), Split::test);
  EXPECT_EQ(test.size(), 3);
  ASSERT_EQ(train.size(), 10);
  const Batch batch = train.read(range(10));
  EXPECT_EQ(batch.target.to_vector<int>(), (std::vector<int>{1, 9, 2, 9, 3, 9, 4, 9, 5, 9}));
  EXPECT_EQ(batch.input.shape(), (Shape{10, 3, 32, 32}));
  const auto values = batch.input.to_vector<float>();
  const std::string bytes = cifar_records({0, 0});
  for (std::size_t i = 0; i < 3072; ++i)
    ASSERT_EQ(values[3072 + i],
              normalized(static_cast<std::uint8_t>(bytes[3074 + i]), kCifar10Normalization[i / 1024]));
}

// Whichever of the 9 x 9 x 2 ways an image was moved: one of them explains every pixel of all three channels.
int find_placement(const std::vector<float>& moved, const std::string& image) {
  for (int way = 0; way < 162; ++way) {
    const int down = way / 18 - 4, right = way / 2 % 9 - 4;
    bool same = true;
    for (int c = 0, i = 0; c < 3 && same; ++c)
      for (int y = 0; y < 32 && same; ++y)
        for (int x = 0; x < 32 && same; ++x, ++i) {
          const int from_y = y + down, from_x = (way % 2 ? 31 - x : x) + right;
          const bool inside = from_y >= 0 && from_y < 32 && from_x >= 0 && from_x < 32;
          const int byte =
              inside ? static_cast<std::uint8_t>(image[static_cast<std::size_t>((c * 32 + from_y) * 32 + from_x)]) : 0;
          same = moved[static_cast<std::size_t>(i)] ==
                 normalized(byte, kCifar10Normalization[static_cast<std::size_t>(c)]);
        }
    if (same) return way;
  }
  return -1;
}

TEST(Cifar10, AugmentationIsAFunctionOfSeedEpochAndIndex) {
  const TemporaryFolder folder;
  put_cifar(folder);
  const Cifar10 train(folder.path(), Split::train, true);
  const std::string image = cifar_records({0}).substr(1);
  std::set<int> ways;
  for (std::uint32_t epoch = 0; epoch < 300; ++epoch) {
    const Batch batch = train.read(std::vector<std::int64_t>{2}, {.seed = 1, .epoch = epoch});
    ways.insert(find_placement(batch.input.to_vector<float>(), image));
  }
  EXPECT_FALSE(ways.contains(-1));
  EXPECT_GT(ways.size(), 110u);  // 137 of 162 expected after 300 draws
  const auto read = [&](const std::vector<std::int64_t>& indices, std::uint64_t seed) {
    return train.read(indices, {.seed = seed, .epoch = 3}).input;
  };
  const auto alone = read({7}, 1).to_vector<float>();
  EXPECT_EQ(read({4, 7, 0}, 1).select(0, 1).to_vector<float>(), alone);
  EXPECT_NE(read({7}, 2).to_vector<float>(), alone);
  const std::vector<std::int64_t> many(100, 7);
  const int threads = core::num_threads();
  core::set_num_threads(1);
  const auto one_thread = read(many, 1).to_vector<float>();
  core::set_num_threads(3);
  EXPECT_EQ(read(many, 1).to_vector<float>(), one_thread);
  core::set_num_threads(threads);
}

TEST(Cifar10, WrongFiles) {
  const TemporaryFolder folder;
  const auto error = [&](Split split) { return error_of([&] { Cifar10(folder.path(), split); }); };
  put_cifar(folder);
  std::filesystem::remove(folder / "data_batch_3.bin");
  expect_contains(error(Split::train), "data_batch_3.bin: cannot be opened");
  folder.put("test_batch.bin", cifar_records({1, 2}).substr(0, 3073 + 100));
  expect_contains(error(Split::test), "test_batch.bin, byte 3073: 100 bytes of a record of 3073");
  folder.put("test_batch.bin", "");
  expect_contains(error(Split::test), "byte 0: ");
  folder.put("test_batch.bin", cifar_records({1, 10}));
  expect_contains(error(Split::test), "test_batch.bin, byte 3073: label 10, needed 0 to 9");
}

}  // namespace
}  // namespace tandem::data
