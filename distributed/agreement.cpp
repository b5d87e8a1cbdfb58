#include "tandem/distributed/agreement.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "tandem/core/fnv1a.h"
#include "tandem/core/lines.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/network/deadline.h"

namespace tandem::distributed {
namespace {

using core::DType;

/// Each rank's number.
std::vector<std::int64_t> gather(ProcessGroup& group, std::int64_t number) {
  Tensor all = Tensor::empty({group.size()}, {.dtype = DType::int64, .device = core::kCpu});
  group.all_gather(Tensor::from(std::vector{number}, core::kCpu), all.reshape({group.size(), 1}), "agreement")->wait();
  return all.to_vector<std::int64_t>();
}

std::string join(std::span<const std::string> lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

std::int64_t fingerprint(std::span<const std::string> lines) {
  return std::bit_cast<std::int64_t>(core::fnv1a(join(lines)));
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  core::for_each_line(text, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

/// Rank `root`'s lines.
std::vector<std::string> lines_of(ProcessGroup& group, int root, std::span<const std::string> mine) {
  std::string text = join(mine);
  Tensor size = Tensor::from(std::vector{static_cast<std::int64_t>(text.size())}, core::kCpu);
  group.broadcast(size, root, "agreement")->wait();
  text.resize(static_cast<std::size_t>(size.item()));
  Tensor bytes = Tensor::empty({static_cast<std::int64_t>(text.size())}, {.dtype = DType::uint8, .device = core::kCpu});
  std::memcpy(bytes.mutable_raw_data(), text.data(), text.size());
  group.broadcast(bytes, root, "agreement")->wait();
  std::memcpy(text.data(), bytes.raw_data(), text.size());
  return split(text);
}

std::string line_or_none(const std::vector<std::string>& lines, std::size_t index) {
  return index < lines.size() ? lines[index] : "nothing there";
}

// Of lines that differ.
std::string difference(const std::string& what, const std::vector<std::string>& first, int rank,
                       const std::vector<std::string>& differing) {
  std::size_t line = 0;
  while (line_or_none(first, line) == line_or_none(differing, line)) ++line;
  return fmt::format("{} differ: rank 0 has {}, rank {} has {}", what, line_or_none(first, line), rank,
                     line_or_none(differing, line));
}

// One comparison in the store: each rank writes its lines, rank 0 reads them and writes how they differ.
class StoreComparison {
 public:
  StoreComparison(World& world, const std::string& what, Milliseconds timeout)
      : world_(world),
        what_(what),
        timeout_(timeout),
        deadline_(timeout),
        // All ranks make the same comparisons in the same order.
        number_(world.store().add(fmt::format("agreement/of rank {}", world.rank()), 1)) {}

  std::string verdict(std::span<const std::string> lines) {
    world_.store().set(lines_key(world_.rank()), join(lines));
    if (world_.rank() != 0) return await(verdict_key(), 0);
    const std::vector<std::string> first = split(join(lines));  // as the others' come, if one holds a newline
    std::string found;
    for (int rank = 1; rank < world_.size(); ++rank) {
      const auto other = split(await(lines_key(rank), rank));
      if (found.empty() && other != first) found = difference(what_, first, rank, other);
    }
    world_.store().set(verdict_key(), found);
    return found;
  }

 private:
  std::string lines_key(int rank) const { return fmt::format("agreement/{}/{}", number_, rank); }
  std::string verdict_key() const { return fmt::format("agreement/{}/verdict", number_); }

  // What rank `writer` is about to write.
  std::string await(const std::string& key, int writer) {
    constexpr Milliseconds kSlice{200};  // a failure ends the wait within this
    do {
      if (auto value = world_.store().get(key, kSlice)) return *std::move(value);
      if (const auto failure = world_.watch().failure()) throw PeerError(failure->cause);
    } while (!deadline_.has_passed());
    give_up(writer);
  }

  // Rank 0 may itself wait for another.
  [[noreturn]] void give_up(int awaited) {
    for (int rank = 0; rank < world_.size(); ++rank) {
      if (world_.store().get(lines_key(rank), Milliseconds(0))) continue;
      awaited = rank;
      break;
    }
    const auto cause =
        fmt::format("rank {} did not come to compare {} within {:g} s", awaited, what_, in_seconds(timeout_));
    throw TimeoutError(world_.watch().report({awaited, world_.rank(), cause}).cause);
  }

  World& world_;
  const std::string& what_;
  const Milliseconds timeout_;
  const Deadline deadline_;
  const std::int64_t number_;
};

}  // namespace

void verify_agreement(World& world, const std::string& what, std::span<const std::string> lines, Milliseconds timeout) {
  const std::string difference_found = StoreComparison(world, what, timeout).verdict(lines);
  if (!difference_found.empty()) throw SharedError(difference_found);
}

void verify_agreement(ProcessGroup& group, const std::string& what, std::span<const std::string> lines) {
  const std::vector<std::int64_t> fingerprints = gather(group, fingerprint(lines));
  const auto other =
      std::find_if(fingerprints.begin(), fingerprints.end(), [&](auto mark) { return mark != fingerprints.front(); });
  if (other == fingerprints.end()) return;
  const int rank = static_cast<int>(other - fingerprints.begin());
  const std::vector<std::string> first = lines_of(group, 0, lines), differing = lines_of(group, rank, lines);
  throw SharedError(difference(what, first, rank, differing));
}

}  // namespace tandem::distributed
