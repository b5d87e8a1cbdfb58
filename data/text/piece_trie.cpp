#include "tandem/data/text/piece_trie.h"

#include <algorithm>
#include <cstring>

namespace tandem::data {

// Breadth first: a node stands for the range of sorted pieces that share its `depth` first bytes.
PieceTrie::PieceTrie(std::vector<std::pair<std::string_view, std::int32_t>> pieces) : nodes_(1), bytes_(1) {
  struct Range {
    std::size_t begin, end, depth;
  };
  std::sort(pieces.begin(), pieces.end());
  std::vector<Range> ranges{{0, pieces.size(), 0}};
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    if (begin < end && pieces[begin].first.size() == depth) nodes_[node].number = pieces[begin++].second;
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = pieces[begin].first[depth];
      std::size_t next = begin;
      while (next < end && pieces[next].first[depth] == byte) ++next;
      nodes_.emplace_back();
      bytes_.push_back(byte);
      ranges.push_back({begin, next, depth + 1});
      ++nodes_[node].child_count;
      begin = next;
    }
  }
}

PieceTrie::Match PieceTrie::longest(std::string_view text) const {
  Match match;
  if (nodes_.empty()) return match;
  const Node* node = nodes_.data();
  for (std::size_t i = 0; i < text.size() && node->child_count > 0; ++i) {
    const char* children = bytes_.data() + node->first_child;
    const void* found = std::memchr(children, static_cast<unsigned char>(text[i]), node->child_count);
    if (!found) break;
    node = &nodes_[node->first_child + static_cast<std::size_t>(static_cast<const char*>(found) - children)];
    if (node->number >= 0) match = {node->number, i + 1};
  }
  return match;
}

}  // namespace tandem::data
