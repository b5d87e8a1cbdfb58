#include "tandem/core/files/safetensors.h"

#include <fmt/format.h>

#include <cstring>

#include "tandem/core/files/file.h"
#include "tests/data/temporary_folder.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using data::TemporaryFolder;
using testing::error_of;
using testing::expect_contains;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

// A file of this header and `data` zero bytes.
std::string file_of(const std::string& header, std::size_t data = 0) {
  return with_length(header.size(), header + std::string(data, '\0'));
}

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  const Tensor x = a.contiguous(), y = b.contiguous();
  EXPECT_TRUE(testing::has_bytes_of(x, y));
}

TEST(Safetensors, RoundTripOfEveryDTypeAndShape) {
  const TemporaryFolder folder;
  StateDict tensors;
  for (const DType dtype : {DType::boolean, DType::uint8, DType::bfloat16, DType::float16, DType::int32, DType::float32,
                            DType::int64, DType::float64})
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 0, 3}, Shape{1, 1, 5}, Shape{2, 1, 3, 1, 2, 2}}) {
      Tensor tensor = Tensor::arange(numel(shape), DType::float32).to(dtype).reshape(shape);
      tensors.emplace_back(fmt::format("{} {}", name(dtype), shape.str()), tensor);
    }
  const Metadata metadata{{"format", "pt"}, {"a \"quote\"\n", "\xc3\xa4"}};
  save_safetensors(folder / "f", tensors, metadata);
  Metadata read;
  const TensorMap loaded = load_safetensors(folder / "f", &read);
  EXPECT_EQ(read, metadata);
  ASSERT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) expect_same(loaded.at(name), tensor);
}

// These lengths begin with the bytes that pickles begin with, too.
TEST(Safetensors, AHeaderMayHaveAnyLength) {
  const TemporaryFolder folder;
  for (const std::size_t length : {640, 896, 1152, 1408, 0x10280}) {
    std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    header.resize(length, ' ');
    EXPECT_EQ(load_safetensors(folder.put("f", file_of(header, 4))).at("a").item(), 0) << length;
  }
}

TEST(Safetensors, AnyStridesAreSavedRowMajor) {
  const TemporaryFolder folder;
  const Tensor base = Tensor::arange(120, DType::float32).reshape({2, 3, 4, 5});
  const StateDict tensors{{"transposed", base.transpose(1, 3)},
                          {"stepped", base.slice(3, 1, 5, 2)},
                          {"expanded", base.select(0, 1).expand({4, 3, 4, 5})},
                          {"channels_last", base.contiguous(MemoryFormat::channels_last)}};
  save_safetensors(folder / "f", tensors);
  for (const auto& [name, tensor] : load_safetensors(folder / "f")) EXPECT_TRUE(tensor.is_contiguous()) << name;
  for (const auto& [name, tensor] : tensors) expect_same(load_safetensors(folder / "f").at(name), tensor);
}

TEST(Safetensors, EveryTensorIsAligned) {
  const TemporaryFolder folder;
  save_safetensors(folder / "f", {{"u8", Tensor::zeros({3}, {.dtype = DType::uint8})},
                                  {"f32", Tensor::zeros({1})},
                                  {"f64", Tensor::zeros({1}, {.dtype = DType::float64})}});
  const std::string bytes = read_file(folder / "f");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const std::string header = bytes.substr(8, length);
  EXPECT_EQ(header.substr(0, header.find_last_not_of(' ') + 1),
            R"({"f64":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
            R"("f32":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},)"
            R"("u8":{"dtype":"U8","shape":[3],"data_offsets":[12,15]}})");
}

TEST(Safetensors, NothingIsAFileToo) {
  const TemporaryFolder folder;
  save_safetensors(folder / "f", {});
  EXPECT_TRUE(load_safetensors(folder / "f").empty());
  EXPECT_TRUE(load_safetensors(folder.put("g", file_of("{}"))).empty());
  EXPECT_TRUE(load_safetensors(folder.put("h", file_of(R"({"__metadata__":{}}      )"))).empty());
}

TEST(Safetensors, SavingChecksNamesAndTensors) {
  const TemporaryFolder folder;
  const Tensor t = Tensor::zeros({1});
  const auto error = [&](const StateDict& tensors) {
    return error_of([&] { save_safetensors(folder / "f", tensors); });
  };
  expect_contains(error({{"a", t}, {"a", t}}), "tensor \"a\" cannot be saved: the name is given twice");
  expect_contains(error({{"__metadata__", t}}), "reserves the name");
  expect_contains(error({{"none", {}}}), "tensor \"none\" cannot be saved: it is undefined");
  expect_contains(error({{"\xff", t}}), "not valid UTF-8");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

struct Hostile {
  const char* what;
  std::string bytes;
  const char* message;  // part of it
};

const std::string kA = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}
std::string object(const std::vector<std::string>& items) { return fmt::format("{{{}}}", fmt::join(items, ",")); }
std::string tensor_file(const std::string& dtype, const std::string& shape, const std::string& offsets,
                        std::size_t data) {
  return file_of(object({entry("a", dtype, shape, offsets)}), data);
}

std::vector<Hostile> hostile_files() {
  const std::string deep(100'000, '[');
  return {
      {"empty file", "", "byte 0: the file ends within the 8 bytes"},
      {"seven bytes", std::string(7, '\0'), "byte 7: the file ends within the 8 bytes"},
      {"no header", with_length(0, ""), "byte 8: the header does not begin with {"},
      {"header past the end", with_length(100, "{}"),
       "byte 0: no safetensors file, or cut short: a header of 100 bytes does not fit into a file of 10"},
      {"absurd header", with_length(~std::uint64_t{0}, "{}"), "does not fit"},
      {"negative header", with_length(std::uint64_t{1} << 63, "{}"), "does not fit"},
      {"not JSON", file_of("{nonsense}"), "the header is not valid JSON"},
      {"cut JSON", file_of(R"({"a":{"dtype")"), "not valid JSON"},
      {"two objects", file_of("{}{}"), "byte 11: the header is not valid JSON"},
      {"spaces before", file_of("  {}"), "byte 8: the header does not begin with {"},
      {"zero padding", file_of(std::string("{}\0\0", 4)), "byte 10: the header is not valid JSON"},
      {"invalid UTF-8", file_of("{\"\xff\":1}"), "not valid JSON"},
      {"an array", file_of("[]"), "does not begin with {"},
      {"deep arrays", file_of(fmt::format("{{\"a\":{}", deep)), "byte 14: found an array, needed an object for \"a\""},
      {"deep objects", file_of(R"({"a":{"shape":{"b":{)"), "tensor \"a\": found an object, needed an array for shape"},
      {"deep shape", file_of(R"({"a":{"shape":[[1]]}})"), "found an array"},
      {"number as tensor", file_of(R"({"a":1})"), "found 1, needed an object for \"a\""},
      {"null as tensor", file_of(R"({"a":null})"), "found null"},
      {"metadata number", file_of(R"({"__metadata__":{"k":1}})"), "found 1, needed a string for metadata \"k\""},
      {"metadata object", file_of(R"({"__metadata__":{"k":{}}})"), "found an object, needed a string"},
      {"metadata string", file_of(R"({"__metadata__":"x"})"), "found the string \"x\""},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})"), "\"__metadata__\" appears twice"},
      {"metadata key twice", file_of(R"({"__metadata__":{"k":"1","k":"2"}})"), "metadata \"k\" appears twice"},
      {"dtype number", file_of(R"({"a":{"dtype":4}})"), "found 4, needed a string for dtype"},
      {"dtype array", file_of(R"({"a":{"dtype":["F32"]}})"), "found an array, needed a string for dtype"},
      {"unknown dtype", tensor_file("F8_E4M3", "[2]", "[0,2]", 2), "dtype \"F8_E4M3\" is not supported (F32,"},
      {"shape string", file_of(R"({"a":{"shape":"2"}})"), "found the string \"2\", needed an array for shape"},
      {"negative size", tensor_file("F32", "[-2]", "[0,8]", 8), "found -2, needed a size"},
      {"fractional size", tensor_file("F32", "[2.0]", "[0,8]", 8), "found 2.0, needed a size"},
      {"size of 2^63", tensor_file("F32", "[9223372036854775808]", "[0,8]", 8),
       "found 9223372036854775808, needed a size"},
      {"size of 10^30", tensor_file("F32", "[1000000000000000000000000000000]", "[0,8]", 8), "needed a size"},
      {"boolean offset", tensor_file("F32", "[2]", "[true,8]", 8), "found true, needed an offset"},
      {"one offset", tensor_file("F32", "[2]", "[0]", 8), "data_offsets needs two numbers"},
      {"three offsets", tensor_file("F32", "[2]", "[0,8,9]", 8), "data_offsets has more than two numbers"},
      {"no dtype", file_of(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8), "tensor \"a\": dtype is missing"},
      {"no shape", file_of(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "shape is missing"},
      {"no offsets", file_of(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "data_offsets is missing"},
      {"unknown key", file_of(R"({"a":{"dtype":"F32","strides":[1]}})"), "unknown key \"strides\""},
      {"key twice", file_of(R"({"a":{"dtype":"F32","dtype":"F32"}})"), "dtype appears twice"},
      {"shape twice", file_of(R"({"a":{"shape":[],"shape":[]}})"), "shape appears twice"},
      {"name twice", file_of(object({kA, kA}), 8), "the name \"a\" appears twice"},
      {"name twice, escaped", file_of(object({kA, R"("\u0061":{})"}), 8), "the name \"a\" appears twice"},
      {"rank 7", tensor_file("F32", "[1,1,1,1,1,1,1]", "[0,4]", 4), "shape has more than 6 dimensions"},
      {"product overflows", tensor_file("F32", "[4294967296,4294967296]", "[0,0]", 0),
       "overflows in shape with sizes 4294967296 x"},
      {"bytes overflow", tensor_file("F64", "[2305843009213693952]", "[0,0]", 0), "overflows"},
      {"strides overflow", tensor_file("F32", "[0,4294967296,4294967296]", "[0,0]", 0), "overflows"},
      {"reversed", tensor_file("F32", "[2]", "[8,0]", 8), "data_offsets [8, 0] are reversed"},
      {"shape too small", tensor_file("F32", "[1]", "[0,8]", 8), "F32 [1] needs 4 bytes, data_offsets [0, 8] hold 8"},
      {"shape too large", tensor_file("F32", "[3]", "[0,8]", 8), "F32 [3] needs 12 bytes"},
      {"beyond the data", tensor_file("F32", "[2]", "[0,8]", 7), "tensor \"a\": data_offsets [0, 8] reach beyond"},
      {"far beyond", tensor_file("U8", "[1000000000000]", "[0,1000000000000]", 8), "reach beyond"},
      {"trailing byte", tensor_file("F32", "[2]", "[0,8]", 9), "1 bytes behind the last tensor belong to none"},
      {"data of nobody", file_of("{}", 3), "byte 10: 3 bytes behind"},
      {"hole in front", tensor_file("F32", "[1]", "[4,8]", 8), "leave a hole"},
      {"hole", file_of(object({kA, entry("b", "U8", "[1]", "[9,10]")}), 10),
       "tensor \"b\": data_offsets [9, 10] leave a hole"},
      {"overlap", file_of(object({kA, entry("b", "U8", "[1]", "[7,8]")}), 8),
       "tensor \"b\": data_offsets [7, 8] overlap"},
      {"same bytes", file_of(object({kA, entry("b", "F32", "[2]", "[0,8]")}), 8), "overlap"},
      {"empty inside another", file_of(object({kA, entry("b", "U8", "[0]", "[4,4]")}), 8), "overlap"},
      {"boolean 2", tensor_file("BOOL", "[2]", "[0,2]", 0) + std::string("\1\2"), "2 is not a BOOL"},
      {"name on two lines", file_of(R"({"a\nb":1})"), R"(needed an object for "a\nb")"},
  };
}

TEST(Safetensors, HostileFilesAreRefused) {
  const TemporaryFolder folder;
  for (const Hostile& hostile : hostile_files()) {
    SCOPED_TRACE(hostile.what);
    const auto path = folder.put("f", hostile.bytes);
    const std::string message = error_of([&] { load_safetensors(path); });
    expect_contains(message, path.string() + ", byte ");
    expect_contains(message, hostile.message);
  }
}

TEST(Safetensors, OffsetsInMessagesAreTheFiles) {
  const TemporaryFolder folder;
  const std::string header = object({kA, entry("b", "U8", "[1]", "[9,10]")});
  expect_contains(error_of([&] { load_safetensors(folder.put("f", file_of(header, 10))); }),
                  fmt::format("byte {}: tensor \"b\"", 8 + header.size() + 8));
  expect_contains(error_of([&] { load_safetensors(folder.put("f", file_of(R"({"a":null})"))); }),
                  "byte 17: found null");
}

// Each cut and each changed byte of a good file either loads or ends in an Error: no crash, no other exception.
TEST(Safetensors, DamageIsAnErrorOrHarmless) {
  const TemporaryFolder folder;
  save_safetensors(folder / "good",
                   {{"w", Tensor::arange(3, DType::float32)}, {"b", Tensor::zeros({2}, {.dtype = DType::boolean})}});
  const std::string good = read_file(folder / "good");
  for (std::size_t length = 0; length < good.size(); ++length)
    error_of([&] { load_safetensors(folder.put("f", good.substr(0, length))); });
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const int change : {1, 2, 0x20, 0x80}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ change);
      try {
        load_safetensors(folder.put("f", bytes));
      } catch (const Error&) {
      }
    }
}

}  // namespace
}  // namespace tandem::core
