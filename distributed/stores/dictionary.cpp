#include "tandem/distributed/stores/dictionary.h"

#include <charconv>

#include "tandem/distributed/error.h"

namespace tandem::distributed {
namespace {

// Keys and values may be long and binary; a message is one short line.
std::string quoted(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kLongest)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > kLongest ? "...'" : "'");
}

}  // namespace

void check_key(const std::string& key) {
  if (key.size() <= Store::kMaxKey) return;
  core::fail("store: key {} has {} bytes, more than {}", quoted(key), key.size(), Store::kMaxKey);
}

void check_value(const std::string& key, const std::string& value) {
  if (value.size() <= Store::kMaxValue) return;
  core::fail("store: the value for key {} has {} bytes, more than {}", quoted(key), value.size(), Store::kMaxValue);
}

void Dictionary::set(const std::string& key, const std::string& value) { values_[key] = value; }

std::optional<std::string> Dictionary::find(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::int64_t Dictionary::add(const std::string& key, std::int64_t amount) {
  std::int64_t number = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) {
      core::fail("store: cannot add to key {}: it holds {}, not a decimal number", quoted(key), quoted(text));
    }
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(number, amount, &sum)) {
    core::fail("store: {} + {} at key {} does not fit into 64 bits", number, amount, quoted(key));
  }
  values_[key] = std::to_string(sum);
  return sum;
}

bool Dictionary::compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                                 const std::string& desired) {
  const auto found = values_.find(key);
  if (found == values_.end() ? expected.has_value() : expected != found->second) return false;
  values_[key] = desired;
  return true;
}

bool Dictionary::remove(const std::string& key) { return values_.erase(key) > 0; }

}  // namespace tandem::distributed
