// The values are the authors': www.isthe.com/chongo/tech/comp/fnv, test_fnv.c.
#include "tandem/core/fnv1a.h"

#include <gtest/gtest.h>

namespace tandem::core {
namespace {

TEST(Fnv1a, values_of_its_authors) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8U);
  EXPECT_EQ(fnv1a<std::uint32_t>(""), 0x811c9dc5U);
  EXPECT_EQ(fnv1a<std::uint32_t>("a"), 0xe40c292cU);
  EXPECT_EQ(fnv1a<std::uint32_t>("foobar"), 0xbf9cf968U);
}

TEST(Fnv1a, goes_on_where_it_ended) {
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
  EXPECT_NE(fnv1a("\x80"), fnv1a("\x7f"));
}

}  // namespace
}  // namespace tandem::core
