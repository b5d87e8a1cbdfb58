// Numbers as bytes, little-endian: for what stores send and write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::distributed {

template <class Integer>
void append_number(std::string& bytes, Integer number) {
  const auto rest = static_cast<std::uint64_t>(number);
  for (std::size_t i = 0; i < sizeof(Integer); ++i) bytes += static_cast<char>(rest >> (8 * i) & 0xff);
}

/// From the front of `bytes`, where the caller has seen that it is there.
template <class Integer>
Integer take_number(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  bytes.remove_prefix(sizeof(Integer));
  return static_cast<Integer>(number);
}

}  // namespace tandem::distributed
