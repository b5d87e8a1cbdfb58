#include "tandem/distributed/failure.h"

#include <fmt/core.h>

#include <limits>

#include "tandem/distributed/fields.h"

namespace tandem::distributed {
namespace {

constexpr std::size_t kMaxCause = 4000;  // bytes

std::optional<int> decode_rank(const std::string& text) {
  const auto number = parse_number(text);
  if (!number || *number < -1 || *number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace

std::string Failure::encode() const {
  return join_fields({std::to_string(rank), std::to_string(reporter), one_line(cause, kMaxCause)});
}

Failure Failure::decode(const std::string& text) {
  const auto fields = split_fields(text);
  if (fields && fields->size() == 3) {
    const auto rank = decode_rank((*fields)[0]), reporter = decode_rank((*fields)[1]);
    // The three dots of a cause that was cut.
    if (rank && reporter) return {*rank, *reporter, one_line((*fields)[2], kMaxCause + 3)};
  }
  return {-1, -1, fmt::format("a failure was reported that cannot be read ({} bytes)", text.size())};
}

std::string goodbye_key(int rank) { return fmt::format("goodbye/{}", rank); }

Failure report_failure(Store& store, const Failure& failure) {
  const auto first = store.compare_and_set(kFailureKey, std::nullopt, failure.encode());
  return first ? Failure::decode(*first) : failure;
}

}  // namespace tandem::distributed
