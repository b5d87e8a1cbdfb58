// That a world joins its groups rightly. The groups' own tests say more.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tandem/distributed/world.h"
#include "tests/errors.h"

namespace tandem::distributed {

/// A new group of `name`, over which a sum came out right.
[[nodiscard]] inline std::shared_ptr<ProcessGroup> expect_sum(World& world, const std::string& name) {
  auto group = world.make_group(name);
  EXPECT_EQ(group->rank(), world.rank());
  EXPECT_EQ(group->size(), world.size());
  const auto tensor = core::Tensor::full({3}, world.rank() + 1.0);
  group->all_reduce(tensor)->wait();
  EXPECT_EQ(tensor.to_vector<float>()[0], 0.5F * static_cast<float>(world.size() * (world.size() + 1)));
  TANDEM_EXPECT_ERROR(world.make_group(name), "there is one of this name already");
  return group;
}

}  // namespace tandem::distributed
