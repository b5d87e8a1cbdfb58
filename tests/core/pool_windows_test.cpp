#include "tandem/core/ops/pool_windows.h"

#include <gtest/gtest.h>

namespace tandem::core {
namespace {

// Padding alone could make room for a kernel, whose window would then see nothing at all.
TEST(PoolWindows, AnInputWithoutPlacesIsAnError) {
  for (const Shape& shape : {Shape{1, 3, 0, 2}, Shape{1, 3, 2, 0}}) {
    try {
      pool_windows("max_pool2d", shape, {.kernel = {2, 2}, .padding = {1, 1}});
      FAIL() << "no error for " << shape.str();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("has no place for a window"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(pool_windows("max_pool2d", {0, 0, 2, 2}, {.kernel = {2, 2}}).rows.count, 1);
}

}  // namespace
}  // namespace tandem::core
