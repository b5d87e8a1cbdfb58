// Beat: what a rank tells the others about itself twice a second (watch.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

struct Beat {
  struct Operation {
    std::string group;
    std::int64_t sequence = 0;
    std::string operation;  ///< in words: "all_reduce of bucket 0"
  };

  std::int64_t count = 0;             ///< of beats
  std::int64_t step = -1;             ///< which update the rank is in; -1: it did not say
  std::vector<Operation> operations;  ///< each group's last one, the latest first

  std::string encode() const;
  /// None where `text` is something else.
  static std::optional<Beat> decode(const std::string& text);

  /// What the group began last; none: nothing.
  const Operation* find(const std::string& group) const;
  /// "last: all_reduce of bucket 0, step 12".
  std::string describe() const;
};

/// The key of a rank's beats.
std::string beat_key(int rank);

}  // namespace tandem::distributed
