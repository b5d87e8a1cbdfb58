#include "tandem/distributed/agreement.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "tandem/distributed/error.h"

namespace tandem::distributed {
namespace {

using core::DType;

// FNV-1a, 64 bits. Source: Fowler, Noll, Vo, www.isthe.com/chongo/tech/comp/fnv/.
std::int64_t fingerprint(std::span<const std::string> lines) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const std::string& line : lines) {
    for (const char c : line) add(static_cast<unsigned char>(c));
    add('\n');
  }
  std::int64_t number = 0;
  std::memcpy(&number, &hash, sizeof(number));
  return number;
}

/// Each rank's number.
std::vector<std::int64_t> gather(ProcessGroup& group, std::int64_t number) {
  const Tensor all = Tensor::empty({group.size()}, {.dtype = DType::int64});
  group.all_gather(Tensor::from(std::vector{number}), all.reshape({group.size(), 1}), "agreement")->wait();
  return all.to_vector<std::int64_t>();
}

/// Rank `root`'s lines.
std::vector<std::string> lines_of(ProcessGroup& group, int root, std::span<const std::string> mine) {
  std::string text;
  for (const std::string& line : mine) text += line + '\n';
  Tensor size = Tensor::from(std::vector{static_cast<std::int64_t>(text.size())});
  group.broadcast(size, root, "agreement")->wait();
  text.resize(static_cast<std::size_t>(size.item()));
  Tensor bytes = Tensor::empty({static_cast<std::int64_t>(text.size())}, {.dtype = DType::uint8});
  std::memcpy(bytes.mutable_raw_data(), text.data(), text.size());
  group.broadcast(bytes, root, "agreement")->wait();
  std::memcpy(text.data(), bytes.raw_data(), text.size());
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string line_or_none(const std::vector<std::string>& lines, std::size_t index) {
  return index < lines.size() ? lines[index] : "nothing there";
}

}  // namespace

void verify_agreement(ProcessGroup& group, const std::string& what, std::span<const std::string> lines) {
  const std::vector<std::int64_t> fingerprints = gather(group, fingerprint(lines));
  const auto other =
      std::find_if(fingerprints.begin(), fingerprints.end(), [&](auto mark) { return mark != fingerprints.front(); });
  if (other == fingerprints.end()) return;
  const int rank = static_cast<int>(other - fingerprints.begin());
  const std::vector<std::string> first = lines_of(group, 0, lines), differing = lines_of(group, rank, lines);
  std::size_t line = 0;
  while (line_or_none(first, line) == line_or_none(differing, line)) ++line;
  throw SharedError(fmt::format("{} differ: rank 0 has {}, rank {} has {}", what, line_or_none(first, line), rank,
                                line_or_none(differing, line)));
}

}  // namespace tandem::distributed
