// A trie over the bytes of a vocabulary's pieces: the longest one that a text begins with, in time of its length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::data {

class PieceTrie {
 public:
  struct Match {
    std::int32_t number = -1;  ///< of the piece, -1 where there is none
    std::size_t length = 0;    ///< bytes
  };

  PieceTrie() = default;
  /// Different pieces, none empty, each with its number.
  explicit PieceTrie(std::vector<std::pair<std::string_view, std::int32_t>> pieces);

  Match longest(std::string_view text) const;

 private:
  struct Node {
    std::int32_t number = -1;       // of the piece that ends here
    std::uint32_t first_child = 0;  // a node's children are neighbours,
    std::uint32_t child_count = 0;  // in order of their bytes
  };

  std::vector<Node> nodes_;  // 0 is the root
  std::vector<char> bytes_;  // by which its parent leads to a node
};

}  // namespace tandem::data
