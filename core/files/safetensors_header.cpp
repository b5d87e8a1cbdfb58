#include "tandem/core/files/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tandem/core/files/file.h"

namespace tandem::core {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, DType>, 8> kDTypes{{{"F32", DType::float32},
                                                                     {"F64", DType::float64},
                                                                     {"BF16", DType::bfloat16},
                                                                     {"F16", DType::float16},
                                                                     {"I64", DType::int64},
                                                                     {"I32", DType::int32},
                                                                     {"U8", DType::uint8},
                                                                     {"BOOL", DType::boolean}}};

// Characters of the text, counting those that the parser took, so that errors can say where.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  std::uint64_t* taken;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    ++*taken;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
};

// Receives the JSON event by event and admits exactly the format's structure: there is no tree in between that a
// hostile file could make deep, and duplicate keys are seen.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::filesystem::path& path) : path_(path) {}

  SafetensorsHeader read(std::string_view text) {
    const CountingIterator first{text.data(), &taken_}, last{text.data() + text.size(), &taken_};
    json::sax_parse(first, last, this);
    return std::move(header_);
  }

  bool null() override { reject("null"); }
  bool boolean(bool value) override { reject(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { reject(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { reject(text.substr(0, 40)); }
  bool binary(json::binary_t&) override { reject("binary data"); }
  bool number_unsigned(std::uint64_t value) override;
  bool string(std::string& value) override;
  bool start_object(std::size_t) override;
  bool key(std::string& key) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    taken_ = position;
    error("the header is not valid JSON");
  }

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets };

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    const bool in_tensor = place_ == Place::tensor || place_ == Place::shape || place_ == Place::offsets;
    fail_at(path_, kSafetensorsHeaderStart + taken_, "{}{}",
            in_tensor ? "tensor " + quoted_name(entry_.name) + ": " : std::string(),
            fmt::format(format, std::forward<Args>(args)...));
  }
  // A value of the wrong type or in the wrong place.
  [[noreturn]] void reject(const std::string& found) const { error("found {}, needed {}", found, needed()); }
  std::string needed() const;
  void finish_tensor();

  const std::filesystem::path& path_;
  SafetensorsHeader header_;
  std::uint64_t taken_ = 0;
  Place place_ = Place::outside;
  std::set<std::string, std::less<>> names_;
  std::string field_;  // the last key: within a tensor's entry, or of the metadata
  SafetensorsEntry entry_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
  bool has_dtype_ = false;
};

std::string HeaderReader::needed() const {
  switch (place_) {
    case Place::outside: return "an object that maps names to tensors";
    case Place::top: return "an object for " + quoted_name(entry_.name);
    case Place::metadata: return "a string for metadata " + quoted_name(field_);
    case Place::tensor: return field_ == "dtype" ? "a string for dtype" : "an array for " + field_;
    case Place::shape: return "a size, a whole number below 2^63";
    case Place::offsets: break;
  }
  return "an offset, a whole number below 2^63";
}

bool HeaderReader::number_unsigned(std::uint64_t value) {
  const bool fits = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if ((place_ != Place::shape && place_ != Place::offsets) || !fits) reject(std::to_string(value));
  auto& list = place_ == Place::shape ? *shape_ : *offsets_;
  if (place_ == Place::shape && list.size() == kMaxRank) error("shape has more than {} dimensions", kMaxRank);
  if (place_ == Place::offsets && list.size() == 2) error("data_offsets has more than two numbers");
  list.push_back(value);
  return true;
}

bool HeaderReader::string(std::string& value) {
  if (place_ == Place::metadata) {
    header_.metadata[field_] = std::move(value);
    return true;
  }
  if (place_ != Place::tensor || field_ != "dtype") reject("the string " + quoted_name(value));
  const auto* known =
      std::find_if(kDTypes.begin(), kDTypes.end(), [&](const auto& pair) { return pair.first == value; });
  if (known == kDTypes.end())
    error("dtype {} is not supported (F32, F64, BF16, F16, I64, I32, U8, BOOL are)", quoted_name(value));
  entry_.dtype = known->second;
  has_dtype_ = true;
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  if (place_ == Place::outside) {
    place_ = Place::top;
  } else if (place_ == Place::top) {
    place_ = entry_.name == "__metadata__" ? Place::metadata : Place::tensor;
  } else {
    reject("an object");
  }
  field_.clear();
  return true;
}

bool HeaderReader::key(std::string& key) {
  if (place_ == Place::top) {
    if (!names_.insert(key).second) error("the name {} appears twice", quoted_name(key));
    entry_ = {};
    entry_.name = std::move(key);
    has_dtype_ = false;
    shape_.reset();
    offsets_.reset();
    return true;
  }
  if (place_ == Place::metadata) {
    if (!header_.metadata.try_emplace(key).second) error("metadata {} appears twice", quoted_name(key));
  } else {
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      error("unknown key {}, only dtype, shape and data_offsets are known", quoted_name(key));
    const bool repeated = key == "dtype" ? has_dtype_ : (key == "shape" ? shape_ : offsets_).has_value();
    if (repeated) error("{} appears twice", key);
  }
  field_ = std::move(key);
  return true;
}

bool HeaderReader::end_object() {
  if (place_ == Place::tensor) finish_tensor();
  place_ = place_ == Place::top ? Place::outside : Place::top;
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (place_ != Place::tensor || field_ == "dtype") reject("an array");
  place_ = field_ == "shape" ? Place::shape : Place::offsets;
  (place_ == Place::shape ? shape_ : offsets_).emplace();
  return true;
}

bool HeaderReader::end_array() {
  if (place_ == Place::offsets && offsets_->size() != 2) error("data_offsets needs two numbers");
  place_ = Place::tensor;
  return true;
}

void HeaderReader::finish_tensor() {
  if (!has_dtype_) error("dtype is missing");
  if (!shape_) error("shape is missing");
  if (!offsets_) error("data_offsets is missing");
  // Strides are products too, taken as if a size of 0 were 1: they must not overflow either.
  auto bytes = static_cast<std::int64_t>(item_size(entry_.dtype));
  std::int64_t widest = bytes;
  for (const std::uint64_t size : *shape_) {
    entry_.shape.push_back(static_cast<std::int64_t>(size));
    if (__builtin_mul_overflow(widest, std::max<std::int64_t>(entry_.shape.back(), 1), &widest))
      error("the number of bytes overflows in shape with sizes {}", fmt::join(*shape_, " x "));
    bytes *= entry_.shape.back();
  }
  entry_.begin = offsets_->front();
  entry_.end = offsets_->back();
  if (entry_.begin > entry_.end) error("data_offsets [{}, {}] are reversed", entry_.begin, entry_.end);
  if (entry_.end - entry_.begin != static_cast<std::uint64_t>(bytes))
    error("{} {} needs {} bytes, data_offsets [{}, {}] hold {}", safetensors_name(entry_.dtype), entry_.shape.str(),
          bytes, entry_.begin, entry_.end, entry_.end - entry_.begin);
  header_.entries.push_back(std::move(entry_));
}

// Sorted by place, each tensor must begin where the one before ends, and the last end with the data.
void check_coverage(const std::filesystem::path& path, const SafetensorsHeader& header, std::uint64_t data_start,
                    std::uint64_t data_bytes) {
  std::uint64_t covered = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    const auto reject = [&](std::uint64_t at, const char* problem) {
      fail_at(path, data_start + at,
              "tensor {}: data_offsets [{}, {}] {} ({} of {} bytes of data are taken before them)",
              quoted_name(entry.name), entry.begin, entry.end, problem, covered, data_bytes);
    };
    if (entry.end > data_bytes) reject(data_bytes, "reach beyond the end of the data");
    if (entry.begin < covered) reject(entry.begin, "overlap another tensor's");
    if (entry.begin > covered) reject(covered, "leave a hole before them");
    covered = entry.end;
  }
  if (covered != data_bytes)
    fail_at(path, data_start + covered, "{} bytes behind the last tensor belong to none", data_bytes - covered);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::filesystem::path& path, std::string_view text,
                                           std::uint64_t data_bytes) {
  if (!text.starts_with('{')) fail_at(path, kSafetensorsHeaderStart, "the header does not begin with {{");
  // The JSON parser would take a zero byte for the end, and not look at what follows.
  if (const std::size_t zero = text.find('\0'); zero != text.npos)
    fail_at(path, kSafetensorsHeaderStart + zero, "the header is not valid JSON");
  SafetensorsHeader header = HeaderReader(path).read(text);
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  check_coverage(path, header, kSafetensorsHeaderStart + text.size(), data_bytes);
  return header;
}

std::string_view safetensors_name(DType dtype) {
  return std::find_if(kDTypes.begin(), kDTypes.end(), [&](const auto& pair) { return pair.second == dtype; })->first;
}

std::string quoted_name(std::string_view name) {
  constexpr std::size_t kShown = 100;
  std::string text = json(name.substr(0, kShown)).dump(-1, ' ', true, json::error_handler_t::replace);
  if (name.size() > kShown) text.insert(text.size() - 1, "...");
  return text;
}

}  // namespace tandem::core
