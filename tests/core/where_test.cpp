#include "tandem/core/ops/where.h"

#include <gtest/gtest.h>

#include "tandem/core/ops/binary.h"
#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

TEST(Where, MatchesReferenceForEveryLayoutAndBroadcast) {
  for (const DType dtype : kEveryDType) {
    const double low = dtype == DType::uint8 ? 0 : -100;
    for (const Tensor& x : awkward_tensors(dtype, low, 100)) {
      const Shape row = x.rank() > 0 ? Shape{x.shape().back()} : Shape{};
      Tensor alike = Tensor::empty_like(x);
      alike.fill(1);
      const Tensor full = random_tensor(x.shape(), DType::float32, 8), thin = random_tensor(row, DType::float32, 8);
      const Tensor zero = Tensor::scalar(0);
      for (const Tensor& condition : {less(full, zero), less(thin, zero), less(x, alike)})
        for (const Tensor& y : {alike, Tensor::scalar(1, dtype), random_tensor(row, dtype, 9, low, 100)})
          for (const bool swapped : {false, true}) {
            const Tensor& a = swapped ? y : x;
            const Tensor& b = swapped ? x : y;
            const Tensor out = where(condition, a, b);
            ASSERT_EQ(out.shape(), x.shape());
            const auto c = condition.to_vector<bool>();
            const auto first = a.to_vector<double>(), second = b.to_vector<double>(), got = out.to_vector<double>();
            for (std::size_t i = 0; i < got.size(); ++i) {
              const auto at = [&](const Tensor& t) {
                return broadcast_index(static_cast<std::int64_t>(i), t.shape(), out.shape());
              };
              ASSERT_EQ(got[i], c[at(condition)] ? first[at(a)] : second[at(b)]) << describe(x);
            }
          }
    }
  }
}

TEST(Where, ResultIsLaidOutAsTheFullDenseOperand) {
  const Tensor x = Tensor::zeros({2, 3, 4, 5}, {.format = MemoryFormat::channels_last}), zero = Tensor::scalar(0);
  EXPECT_TRUE(where(equal(x, zero), x, zero).is_channels_last());
  EXPECT_TRUE(where(equal(x, zero), zero, zero).is_channels_last());
}

TEST(Where, Errors) {
  const Tensor x = Tensor::zeros({2, 3}), condition = equal(x, x);
  TANDEM_EXPECT_ERROR(where(x, x, x), "where: the condition must be bool, got float32 [2, 3]");
  TANDEM_EXPECT_ERROR(where(condition, x, Tensor::arange(3)), "where: dtypes differ: float32 [2, 3] and int64 [3]");
  TANDEM_EXPECT_ERROR(where(condition, x, Tensor::zeros({4})), "where: shapes [2, 3] and [4] do not broadcast");
}

}  // namespace
}  // namespace tandem::core
