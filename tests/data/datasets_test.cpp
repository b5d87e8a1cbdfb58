// The data sets: what they read, normalise, refuse, and draw.
#include <cmath>
#include <numeric>
#include <set>

#include "tandem/core/parallel.h"
#include "tandem/data/cifar10.h"
#include "tandem/data/fashion_mnist.h"
#include "tandem/data/file.h"
#include "tandem/data/idx.h"
#include "tandem/data/safetensors.h"
#include "tandem/data/synthetic.h"
#include "tandem/data/tensors_dataset.h"
#include "tests/data/temporary_folder.h"

namespace tandem::data {
namespace {

using core::DType;
using core::Shape;

std::vector<std::int64_t> range(std::int64_t n) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

float normalized(int byte, const Normalization& n) {
  return (static_cast<float>(byte) / 255.0f - n.mean) / n.deviation;
}

std::string idx3(std::uint8_t count, std::uint8_t side, const std::string& data) {
  return std::string{0, 0, 8, 3,
                     0, 0, 0, static_cast<char>(count),
                     0, 0, 0, static_cast<char>(side),
                     0, 0, 0, static_cast<char>(side)} +
         data;
}
std::string idx1(std::uint8_t count, const std::string& data) {
  return std::string{0, 0, 8, 1, 0, 0, 0, static_cast<char>(count)} + data;
}

TEST(FashionMnist, SmallFiles) {
  const TemporaryFolder folder;
  folder.put("train-images-idx3-ubyte", idx3(2, 2, std::string("\0\1\2\3\4\5\6\xff", 8)));
  folder.put("train-labels-idx1-ubyte.gz", gzip(idx1(2, "\7\1")));
  const FashionMnist fashion(folder.path());
  EXPECT_EQ(fashion.size(), 2);
  EXPECT_EQ(fashion.sample_shape(), (Shape{1, 2, 2}));
  const std::vector<std::int64_t> indices{1, 0, 1};
  const Batch batch = fashion.read(indices);
  EXPECT_EQ(batch.input.shape(), (Shape{3, 1, 2, 2}));
  EXPECT_EQ(batch.target.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 7, 1}));
  const auto values = batch.input.to_vector<float>();
  const int bytes[] = {4, 5, 6, 255, 0, 1, 2, 3, 4, 5, 6, 255};
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(values[i], normalized(bytes[i], kFashionMnistNormalization));
  EXPECT_EQ(mnist(folder.path(), Split::train).read(indices).input.to_vector<float>()[3],
            normalized(255, kMnistNormalization));
  for (const std::int64_t wrong : {-1, 2})
    expect_contains(error_of([&] {
                      fashion.read(std::vector<std::int64_t>{0, wrong});
                    }),
                    fmt::format("sample {} was asked for, there are 2", wrong));
}

TEST(FashionMnist, WrongFiles) {
  const TemporaryFolder folder;
  const auto error = [&] { return error_of([&] { FashionMnist(folder.path(), Split::test); }); };
  expect_contains(error(), (folder / "t10k-images-idx3-ubyte").string() + ": no such file, nor with .gz");
  folder.put("t10k-images-idx3-ubyte", idx3(2, 1, "ab"));
  expect_contains(error(), "t10k-labels-idx1-ubyte: no such file");
  folder.put("t10k-labels-idx1-ubyte", idx1(3, "\1\2\3"));
  expect_contains(error(), "t10k-labels-idx1-ubyte, byte 4: 3 labels, but 2 images");
  folder.put("t10k-labels-idx1-ubyte", idx1(2, "\1\12"));
  expect_contains(error(), "t10k-labels-idx1-ubyte, byte 9: label 10, needed 0 to 9");
}

struct Moments {
  double n = 0, sum = 0, squares = 0;

  void add(const core::Tensor& tensor) {
    for (const double value : tensor.to_vector<double>()) {
      ++n;
      sum += value;
      squares += value * value;
    }
  }
  double mean() const { return sum / n; }
  double deviation() const { return std::sqrt(squares / n - mean() * mean()); }
};

std::uint32_t checksum(const core::Tensor& bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, bytes.data<std::uint8_t>(), bytes.bytes()));
}

// CRC-32 of the elements of files whose MD5 sums are the published ones.
TEST(FashionMnist, TheRealFiles) {
  const std::filesystem::path folder = kFashionMnistFolder;
  EXPECT_EQ(checksum(load_idx_images(folder / "train-images-idx3-ubyte.gz")), 0xae65dccdu);
  EXPECT_EQ(checksum(load_idx_labels(folder / "train-labels-idx1-ubyte.gz")), 0x2ed6e46au);
  EXPECT_EQ(checksum(load_idx_images(folder / "t10k-images-idx3-ubyte.gz")), 0x12728439u);
  EXPECT_EQ(checksum(load_idx_labels(folder / "t10k-labels-idx1-ubyte.gz")), 0x242bc73fu);
}

// Counts, first labels, mean and deviation as published.
TEST(FashionMnist, TheRealOne) {
  const FashionMnist train, test(kFashionMnistFolder, Split::test);
  ASSERT_EQ(train.size(), 60000);
  ASSERT_EQ(test.size(), 10000);
  EXPECT_EQ(train.read(range(10)).target.to_vector<int>(), (std::vector<int>{9, 0, 0, 3, 0, 2, 7, 2, 5, 5}));
  EXPECT_EQ(test.read(range(10)).target.to_vector<int>(), (std::vector<int>{9, 2, 1, 1, 6, 1, 4, 6, 5, 7}));
  Moments normal;
  const auto all = range(60000);
  for (std::size_t first = 0; first < all.size(); first += 1000)
    normal.add(train.read(std::span(all).subspan(first, 1000)).input);
  EXPECT_EQ(normal.n, 60000 * 784);
  EXPECT_NEAR(normal.mean(), 0, 1e-5);
  EXPECT_NEAR(normal.deviation(), 1, 1e-5);
  for (const auto& [set, count] : {std::pair<const FashionMnist*, int>{&train, 6000}, {&test, 1000}}) {
    std::vector<int> counts(10);
    for (const int label : set->read(range(set->size())).target.to_vector<int>())
      ++counts[static_cast<std::size_t>(label)];
    EXPECT_EQ(counts, std::vector<int>(10, count));
  }
}

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

TEST(Synthetic, IsAFunctionOfSeedAndIndex) {
  for (const Shape& shape : {Shape{3, 9, 11}, Shape{}, Shape{1}, Shape{5}, Shape{2, 3}, Shape{2, 3, 4, 5},
                             Shape{3, 0, 2}, Shape{3, 40, 40}}) {
    SCOPED_TRACE(shape.str());
    const Synthetic a({.size = 20, .sample_shape = shape, .classes = 3, .seed = 4}),
        b({.size = 20, .sample_shape = shape, .classes = 3, .seed = 4});
    const Synthetic other({.size = 20, .sample_shape = shape, .classes = 3, .seed = 5});
    const Batch all = a.read(range(20));
    ASSERT_EQ(all.input.rank(), shape.rank() + 1);
    const auto last = all.input.select(0, 19).to_vector<float>();
    EXPECT_EQ(b.read(std::vector<std::int64_t>{19}, {.seed = 9, .epoch = 9}).input.to_vector<float>(), last);
    EXPECT_EQ(all.target.to_vector<int>()[19], 1);
    if (last.empty()) continue;
    EXPECT_NE(other.read(std::vector<std::int64_t>{19}).input.to_vector<float>(), last);
    EXPECT_NE(all.input.select(0, 16).to_vector<float>(), last);  // of the same class
  }
}

// The nearest mean of the classes, taken from the first half, classifies the second.
TEST(Synthetic, CanBeLearned) {
  const Synthetic synthetic({.size = 400, .sample_shape = {1, 8, 8}, .classes = 10});
  const Batch batch = synthetic.read(range(400));
  const auto x = batch.input.to_vector<double>();
  const auto y = batch.target.to_vector<int>();
  std::vector<std::vector<double>> means(10, std::vector<double>(64));
  for (std::size_t i = 0; i < 200; ++i)
    for (std::size_t k = 0; k < 64; ++k) means[static_cast<std::size_t>(y[i])][k] += x[i * 64 + k] / 20;
  int right = 0;
  for (std::size_t i = 200; i < 400; ++i) {
    std::vector<double> distance(10);
    for (std::size_t c = 0; c < 10; ++c)
      for (std::size_t k = 0; k < 64; ++k) distance[c] += std::pow(x[i * 64 + k] - means[c][k], 2);
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == y[i];
  }
  EXPECT_GE(right, 190);
  // Noise: what is left when the class's mean is taken away has mean 0 and deviation 1.
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 200; ++i)
    for (std::size_t k = 0; k < 64; ++k) {
      const double rest = x[i * 64 + k] - means[static_cast<std::size_t>(y[i])][k];
      sum += rest;
      squares += rest * rest;
    }
  EXPECT_NEAR(sum / 12800, 0, 1e-6);
  EXPECT_NEAR(squares / 12800, 0.95, 0.03);  // 19/20: the mean was taken from the same 20 samples
}

TEST(Synthetic, WrongOptions) {
  expect_contains(error_of([] { Synthetic({.size = -1}); }), "synthetic: -1 samples");
  expect_contains(error_of([] { Synthetic({.size = std::int64_t{1} << 32}); }), "needed 0 to 2^32 - 1");
  expect_contains(error_of([] { Synthetic({.classes = 0}); }), "synthetic: 0 classes");
  expect_contains(error_of([] { Synthetic({.sample_shape = {1, 1, 1, 1, 1, 1}}); }), "leaves no dimension for N");
}

TEST(TensorsDataset, RowsInFileOrder) {
  const TemporaryFolder folder;
  const core::Tensor input = core::Tensor::arange(24, DType::float32).reshape({4, 1, 2, 3});
  const core::Tensor target = core::Tensor::from<std::int64_t>({5, 0, 2, 1});
  save_safetensors(folder / "f", {{"input", input}, {"target", target}, {"other", input}});
  const TensorsDataset tensors(folder / "f");
  EXPECT_EQ(tensors.size(), 4);
  EXPECT_EQ(tensors.classes(), 6);
  EXPECT_EQ(tensors.sample_shape(), (Shape{1, 2, 3}));
  const Batch batch = tensors.read(std::vector<std::int64_t>{3, 1});
  EXPECT_EQ(batch.target.to_vector<int>(), (std::vector<int>{1, 0}));
  EXPECT_EQ(batch.input.shape(), (Shape{2, 1, 2, 3}));
  EXPECT_EQ(batch.input.to_vector<float>(), (std::vector<float>{18, 19, 20, 21, 22, 23, 6, 7, 8, 9, 10, 11}));
}

TEST(TensorsDataset, WrongFiles) {
  const TemporaryFolder folder;
  const core::Tensor input = core::Tensor::zeros({4, 2}), target = core::Tensor::zeros({4}, {.dtype = DType::int64});
  const auto error = [&](const NamedTensors& tensors) {
    save_safetensors(folder / "f", tensors);
    const std::string message = error_of([&] { TensorsDataset(folder / "f"); });
    expect_contains(message, (folder / "f").string());
    return message;
  };
  expect_contains(error({{"target", target}}), "has no tensor \"input\"");
  expect_contains(error({{"input", input}}), "has no tensor \"target\"");
  expect_contains(error({{"input", input.to(DType::float64)}, {"target", target}}),
                  "\"input\" is float64, needed float32");
  expect_contains(error({{"input", input}, {"target", input}}), "\"target\" is float32, needed int64");
  expect_contains(error({{"input", input.slice(0, 0, 3)}, {"target", target}}),
                  "\"input\" [3, 2] and \"target\" [4] do not fit");
  expect_contains(error({{"input", core::Tensor::zeros({})}, {"target", target}}), "do not fit");
  expect_contains(error({{"input", input}, {"target", target.unsqueeze(1)}}), "do not fit");
  expect_contains(error({{"input", input}, {"target", core::Tensor::from<std::int64_t>({0, 1, -100, 1})}}),
                  "target[2] is -100");
  expect_contains(error({{"input", input}, {"target", core::Tensor::full({4}, 1e18, {.dtype = DType::int64})}}),
                  "target[0] is 1000000000000000000");
}

}  // namespace
}  // namespace tandem::data
