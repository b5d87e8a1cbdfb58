#include "tandem/data/fashion_mnist.h"

#include <cmath>

#include "tandem/data/idx.h"
#include "tests/data/samples.h"

namespace tandem::data {
namespace {

using core::Shape;

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

}  // namespace
}  // namespace tandem::data
