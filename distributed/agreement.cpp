#include "tandem/distributed/agreement.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "tandem/core/fnv1a.h"
#include "tandem/core/lines.h"
#include "tandem/distributed/error.h"

namespace tandem::distributed {
namespace {

using core::DType;

/// Each rank's number.
std::vector<std::int64_t> gather(ProcessGroup& group, std::int64_t number) {
  const Tensor all = Tensor::empty({group.size()}, {.dtype = DType::int64});
  group.all_gather(Tensor::from(std::vector{number}), all.reshape({group.size(), 1}), "agreement")->wait();
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
  Tensor size = Tensor::from(std::vector{static_cast<std::int64_t>(text.size())});
  group.broadcast(size, root, "agreement")->wait();
  text.resize(static_cast<std::size_t>(size.item()));
  Tensor bytes = Tensor::empty({static_cast<std::int64_t>(text.size())}, {.dtype = DType::uint8});
  std::memcpy(bytes.mutable_raw_data(), text.data(), text.size());
  group.broadcast(bytes, root, "agreement")->wait();
  std::memcpy(text.data(), bytes.raw_data(), text.size());
  return split(text);
}

std::string line_or_none(const std::vector<std::string>& lines, std::size_t index) {
  return index < lines.size() ? lines[index] : "nothing there";
}

[[noreturn]] void throw_difference(const std::string& what, const std::vector<std::string>& first, int rank,
                                   const std::vector<std::string>& differing) {
  std::size_t line = 0;
  while (line_or_none(first, line) == line_or_none(differing, line)) ++line;
  throw SharedError(fmt::format("{} differ: rank 0 has {}, rank {} has {}", what, line_or_none(first, line), rank,
                                line_or_none(differing, line)));
}

/// The value of a key that another rank is about to set.
std::string await(World& world, const std::string& key, std::chrono::steady_clock::time_point deadline, int rank) {
  constexpr Milliseconds kSlice{200};  // a failure ends the wait within this
  while (std::chrono::steady_clock::now() < deadline) {
    if (const auto value = world.store().get(key, kSlice)) return *value;
    if (const auto failure = world.watch().failure()) throw PeerError(failure->cause);
  }
  throw TimeoutError(fmt::format("rank {} did not come to compare {}", rank, key));
}

}  // namespace

void verify_agreement(World& world, const std::string& topic, const std::string& what,
                      std::span<const std::string> lines, Milliseconds timeout) {
  const auto key = [&](int rank) { return fmt::format("agreement/{}/{}", topic, rank); };
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  world.store().set(key(world.rank()), join(lines));
  const std::vector<std::string> first = split(await(world, key(0), deadline, 0));
  for (int rank = 1; rank < world.size(); ++rank)
    if (const auto other = split(await(world, key(rank), deadline, rank)); other != first)
      throw_difference(what, first, rank, other);
}

void verify_agreement(ProcessGroup& group, const std::string& what, std::span<const std::string> lines) {
  const std::vector<std::int64_t> fingerprints = gather(group, fingerprint(lines));
  const auto other =
      std::find_if(fingerprints.begin(), fingerprints.end(), [&](auto mark) { return mark != fingerprints.front(); });
  if (other == fingerprints.end()) return;
  const int rank = static_cast<int>(other - fingerprints.begin());
  const std::vector<std::string> first = lines_of(group, 0, lines), differing = lines_of(group, rank, lines);
  throw_difference(what, first, rank, differing);
}

}  // namespace tandem::distributed
