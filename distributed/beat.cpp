#include "tandem/distributed/beat.h"

#include <fmt/core.h>

#include "tandem/distributed/fields.h"

namespace tandem::distributed {
namespace {

constexpr std::size_t kMaxOperation = 300, kMaxOperations = 100;

}  // namespace

std::string Beat::encode() const {
  std::vector<std::string> fields{std::to_string(count), std::to_string(step)};
  for (const Operation& operation : operations) {
    if (fields.size() >= 2 + 3 * kMaxOperations) break;
    fields.push_back(operation.group);
    fields.push_back(std::to_string(operation.sequence));
    fields.push_back(one_line(operation.operation, kMaxOperation));
  }
  return join_fields(fields);
}

std::optional<Beat> Beat::decode(const std::string& text) {
  const auto fields = split_fields(text);
  if (!fields || fields->size() % 3 != 2) return std::nullopt;
  const auto count = parse_number((*fields)[0]), step = parse_number((*fields)[1]);
  if (!count || !step) return std::nullopt;
  Beat beat{*count, *step, {}};
  for (std::size_t i = 2; i < fields->size(); i += 3) {
    const auto sequence = parse_number((*fields)[i + 1]);
    if (!sequence) return std::nullopt;
    beat.operations.push_back({(*fields)[i], *sequence, one_line((*fields)[i + 2], kMaxOperation + 3)});
  }
  return beat;
}

const Beat::Operation* Beat::find(const std::string& group) const {
  for (const Operation& operation : operations) {
    if (operation.group == group) return &operation;
  }
  return nullptr;
}

std::string Beat::describe() const {
  std::string text = operations.empty() ? "" : operations.front().operation;
  if (step >= 0) text += fmt::format("{}step {}", text.empty() ? "" : ", ", step);
  return "last: " + (text.empty() ? "no collective yet" : text);
}

std::string beat_key(int rank) { return fmt::format("beat/{}", rank); }

}  // namespace tandem::distributed
