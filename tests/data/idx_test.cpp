#include "tandem/data/idx.h"

#include "tests/data/temporary_folder.h"

namespace tandem::data {
namespace {

using core::Shape;

std::string idx(const std::vector<std::uint32_t>& dims, const std::string& data, std::uint8_t type = 8) {
  std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(dim >> shift & 0xff);
  return bytes + data;
}

std::string load_error(const TemporaryFolder& folder, const std::string& bytes, int rank) {
  const auto path = folder.put("f", bytes);
  const std::string message = error_of([&] { load_idx(path, rank); });
  expect_contains(message, path.string() + ", byte ");
  return message;
}

TEST(Idx, PlainAndCompressed) {
  const TemporaryFolder folder;
  const std::string bytes = idx({2, 1, 3}, std::string("\0\1\2\3\xfe\xff", 6));
  const std::string half = gzip(bytes.substr(0, 9)), rest = gzip(bytes.substr(9));
  for (const std::string& file : {bytes, gzip(bytes), half + rest}) {
    const core::Tensor tensor = load_idx_images(folder.put("f", file));
    EXPECT_EQ(tensor.shape(), (Shape{2, 1, 3}));
    EXPECT_EQ(tensor.to_vector<int>(), (std::vector<int>{0, 1, 2, 3, 254, 255}));
  }
  EXPECT_EQ(load_idx_labels(folder.put("f", idx({0}, ""))).shape(), (Shape{0}));
  EXPECT_EQ(load_idx_images(folder.put("f", gzip(idx({0, 28, 28}, "")))).shape(), (Shape{0, 28, 28}));
}

TEST(Idx, WrongHeaders) {
  const TemporaryFolder folder;
  const auto compress = [](bool compressed, const std::string& bytes) { return compressed ? gzip(bytes) : bytes; };
  for (const bool z : {false, true}) {
    expect_contains(load_error(folder, compress(z, ""), 1), "byte 0: the file ends within its header");
    expect_contains(load_error(folder, compress(z, idx({5}, "").substr(0, 6)), 1), "byte 6: the file ends within");
    expect_contains(load_error(folder, compress(z, "PK\3\4 and so on"), 1), "byte 0: 0x504b0304 is not the beginning");
    expect_contains(load_error(folder, compress(z, idx({1}, "aaaa", 0x0d)), 1),
                    "byte 2: element type 0x0d, needed 0x08");
    expect_contains(load_error(folder, compress(z, idx({1}, "a")), 3), "byte 3: 1 dimensions, needed 3");
    expect_contains(load_error(folder, compress(z, idx({~0u, ~0u, ~0u}, "")), 3), "overflows");
    expect_contains(load_error(folder, compress(z, idx({0, ~0u, ~0u}, "")), 3), "overflows");
    expect_contains(load_error(folder, compress(z, idx({1u << 31, 1u << 31, 1}, "abc")), 3), "the file ends early");
  }
}

TEST(Idx, WrongLengths) {
  const TemporaryFolder folder;
  expect_contains(load_error(folder, idx({4}, "abc"), 1), "byte 11: the file ends early: [4] needs 4 bytes, at most 3");
  expect_contains(load_error(folder, gzip(idx({4}, "abc")), 1),
                  "byte 11: the file ends early: [4] needs 4 bytes, 3 follow");
  expect_contains(load_error(folder, idx({2}, "abc"), 1), "byte 10: the file goes on behind the last element of [2]");
  expect_contains(load_error(folder, gzip(idx({2}, "abc")), 1), "byte 10: the file goes on behind the last element");
}

TEST(Idx, DamagedGzip) {
  const TemporaryFolder folder;
  const std::string good = gzip(idx({1000}, std::string(1000, 'x')));
  for (std::size_t length = 2; length < good.size(); ++length)
    expect_contains(load_error(folder, good.substr(0, length), 1), "gzip data ends early");
  std::string bytes = good;
  bytes[bytes.size() - 8] = static_cast<char>(bytes[bytes.size() - 8] ^ 1);  // of the checksum
  expect_contains(load_error(folder, bytes, 1), "the gzip data is damaged");
  expect_contains(load_error(folder, bytes, 1), "incorrect data check");
  expect_contains(load_error(folder, good + "tail", 1), "4 bytes behind the end of the gzip data");
}

// A header that promises little, and a stream that unpacks to much more: reading stops one byte behind what was
// promised.
TEST(Idx, DecompressionBombs) {
  const TemporaryFolder folder;
  expect_contains(load_error(folder, gzip(idx({10}, std::string(50'000'000, '\0'))), 1),
                  "byte 18: the file goes on behind");
  expect_contains(load_error(folder, gzip(idx({4'000'000'000u}, "")), 1), "at most");
}

TEST(Idx, Missing) {
  const TemporaryFolder folder;
  expect_contains(error_of([&] { load_idx(folder / "none", 1); }), "none: cannot be opened: No such file");
}

}  // namespace
}  // namespace tandem::data
