// The two 16-bit floating-point types, as storage with conversions: arithmetic is done in float.
//
// bfloat16 is the upper half of a float32 (8 exponent bits, 7 fraction bits); float16 is IEEE 754 binary16
// (5 and 10). Conversion from float rounds to nearest, ties to even; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace tandem::core {

struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? static_cast<std::uint16_t>((word >> 16) | 0x40u)
                  : static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  explicit float16(float value) : bits(from_float(value)) {}
  explicit operator float() const { return to_float(bits); }

 private:
  static std::uint16_t from_float(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((word >> 16) & 0x8000u);
    const std::uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65536 and above
    if (magnitude < 0x38800000u) {  // subnormal in float16: let one float addition do the rounding
      const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3f000000u));
    }
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  static float to_float(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    if (exponent == 0) {
      const float value = static_cast<float>(fraction) * 0x1p-24f;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
  }
};

}  // namespace tandem::core
