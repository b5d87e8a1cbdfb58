// FNV-1a: fingerprints of bytes, against mistakes and not against attackers.
// Source: Fowler, Noll, Vo, www.isthe.com/chongo/tech/comp/fnv.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

namespace tandem::core {

/// Of 32 or 64 bits. `hash` is that of what stands before `bytes`.
template <std::unsigned_integral Integer = std::uint64_t>
requires(sizeof(Integer) == 4 || sizeof(Integer) == 8) constexpr Integer
    fnv1a(std::string_view bytes,
          Integer hash = static_cast<Integer>(sizeof(Integer) == 4 ? 0x811c9dc5 : 0xcbf29ce484222325)) {
  constexpr auto kPrime = static_cast<Integer>(sizeof(Integer) == 4 ? 0x1000193 : 0x100000001b3);
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return hash;
}

}  // namespace tandem::core
