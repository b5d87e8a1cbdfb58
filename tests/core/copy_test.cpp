#include "tandem/core/ops/copy.h"

#include <gtest/gtest.h>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

// Whole numbers from 0 to 15 fit every dtype but bool.
TEST(Copy, BetweenAllDtypesAndLayouts) {
  for (const DType from : kEveryDType)
    for (const Tensor& source : awkward_tensors(from == DType::boolean ? from : DType::uint8, 0, 16)) {
      const Tensor typed = source.to(from);
      const auto wanted = typed.to_vector<double>();
      for (const DType to : kEveryDType) {
        Tensor plain = Tensor::zeros(source.shape(), {.dtype = to});
        copy(typed, plain);
        std::vector<double> expected = wanted;
        if (to == DType::boolean)
          for (double& v : expected) v = v != 0;
        ASSERT_EQ(plain.to_vector<double>(), expected) << describe(typed) << " to " << name(to);
      }
    }
}

TEST(Copy, IntoGapsLeavesTheRestAlone) {
  for (const Tensor& source : awkward_tensors(DType::float32)) {
    if (source.rank() == 0) continue;
    Shape wide = source.shape();
    wide[0] = 2 * wide[0] + 1;
    Tensor whole = Tensor::full(wide, 9);
    Tensor odd = whole.slice(0, 1, wide[0], 2);
    copy(source, odd);
    ASSERT_EQ(odd.to_vector<float>(), source.to_vector<float>()) << describe(source);
    for (const float v : whole.slice(0, 0, wide[0], 2).to_vector<float>()) ASSERT_EQ(v, 9);
  }
}

TEST(Copy, ConvertsAsCppDoes) {
  const Tensor x = Tensor::from<float>({-1.75f, 2.5f, 0.25f});
  EXPECT_EQ(x.to(DType::int32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1, 2, 0}));
  EXPECT_EQ(x.to(DType::boolean).to_vector<bool>(), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(Tensor::from<float>({1.00390625f}).to(DType::bfloat16).to_vector<float>()[0], 1.0f) << "ties to even";
}

TEST(Copy, OnlyTheDestinationChanges) {
  const Tensor source = Tensor::arange(3, DType::float32);
  Tensor destination = Tensor::zeros({3});
  const auto source_version = source.version(), version = destination.version();
  copy(source, destination);
  EXPECT_EQ(source.version(), source_version);
  EXPECT_GT(destination.version(), version);
  TANDEM_EXPECT_ERROR(copy(Tensor::zeros({4}), destination), "copy: source [4] does not fit destination [3]");
}

}  // namespace
}  // namespace tandem::core
