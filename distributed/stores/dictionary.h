// The keys and values of a store, for one thread at a time: what all kinds of stores do with them, without the sharing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

/// Throw Error where the key, or the value, is longer than a store takes.
void check_key(const std::string& key);
void check_value(const std::string& key, const std::string& value);

class Dictionary {
 public:
  void set(const std::string& key, const std::string& value);
  std::optional<std::string> find(const std::string& key) const;
  /// Throws Error where the value is no number, or the sum no std::int64_t.
  std::int64_t add(const std::string& key, std::int64_t amount);
  /// Whether it set; find() tells what the key holds now.
  bool compare_and_set(const std::string& key, const std::optional<std::string>& expected, const std::string& desired);
  bool remove(const std::string& key);

 private:
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace tandem::distributed
