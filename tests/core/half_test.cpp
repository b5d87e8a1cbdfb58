#include "tandem/core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::core {
namespace {

template <class Half>
Half from_bits(unsigned bits) {
  Half value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

// The number that a bit pattern stands for, from the definition of the format.
double decode(unsigned bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const unsigned fraction = bits & ((1u << fraction_bits) - 1);
  const double sign = bits >> 15 & 1u ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const double scaled = exponent == 0 ? fraction : fraction + (1u << fraction_bits);
  return sign * std::ldexp(scaled, std::max(exponent, 1) - bias - fraction_bits);
}

template <class Half>
void check_all_patterns(int exponent_bits, int fraction_bits) {
  for (unsigned bits = 0; bits < 1u << 16; ++bits) {
    const auto value = static_cast<float>(from_bits<Half>(bits));
    const double wanted = decode(bits, exponent_bits, fraction_bits);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(Half(value)))) << bits;
      continue;
    }
    ASSERT_EQ(value, wanted) << bits;
    ASSERT_EQ(Half(value).bits, bits) << "there and back";
  }
}

// Between each two neighbours: the middle goes to the even one, what lies beside it to the nearer one.
template <class Half>
void check_rounding(unsigned infinity) {
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const double low = static_cast<float>(from_bits<Half>(bits));
    double high = static_cast<float>(from_bits<Half>(bits + 1));
    if (bits + 1 == infinity) high = 2 * low - static_cast<float>(from_bits<Half>(bits - 1));  // what would come next
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2) << "float holds it";
    ASSERT_EQ(Half(middle).bits, bits + (bits & 1u)) << bits;
    ASSERT_EQ(Half(-middle).bits, 0x8000u + bits + (bits & 1u)) << bits;
    ASSERT_EQ(Half(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(Half(std::nextafter(middle, std::numeric_limits<float>::infinity())).bits, bits + 1);
  }
}

TEST(Half, EveryBfloat16) { check_all_patterns<bfloat16>(8, 7); }
TEST(Half, EveryFloat16) { check_all_patterns<float16>(5, 10); }

TEST(Half, Float16RoundsToNearestEven) { check_rounding<float16>(0x7c00); }

TEST(Half, Bfloat16RoundsToNearestEven) {
  // The middles of the smallest ones are float's subnormal numbers too, and the largest one's is above float's range.
  for (unsigned bits = 0; bits < 0x7f7f; ++bits) {
    const std::uint32_t middle = bits << 16 | 0x8000u;
    ASSERT_EQ(bfloat16(std::bit_cast<float>(middle)).bits, bits + (bits & 1u)) << bits;
    ASSERT_EQ(bfloat16(std::bit_cast<float>(middle - 1)).bits, bits);
    ASSERT_EQ(bfloat16(std::bit_cast<float>(middle + 1)).bits, bits + 1);
    ASSERT_EQ(bfloat16(std::bit_cast<float>(middle | 0x80000000u)).bits, 0x8000u + bits + (bits & 1u));
  }
  EXPECT_TRUE(std::isinf(static_cast<float>(bfloat16(std::numeric_limits<float>::max()))));
}

TEST(Half, NanWhosePayloadIsInTheLowBitsStaysNan) {
  for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(bits)))));
    EXPECT_TRUE(std::isnan(static_cast<float>(float16(std::bit_cast<float>(bits)))));
  }
}

}  // namespace
}  // namespace tandem::core
