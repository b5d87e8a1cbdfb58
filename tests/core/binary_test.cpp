#include "tandem/core/ops/binary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

double propagating(double a, double b, double chosen) { return std::isnan(a) || std::isnan(b) ? kNan : chosen; }

struct Case {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
  double (*reference)(double, double);
};

const Case kArithmetic[] = {
    {"add", add, [](double a, double b) { return a + b; }},
    {"sub", sub, [](double a, double b) { return a - b; }},
    {"mul", mul, [](double a, double b) { return a * b; }},
    {"div", div, [](double a, double b) { return a / b; }},
    {"maximum", maximum, [](double a, double b) { return propagating(a, b, std::max(a, b)); }},
    {"minimum", minimum, [](double a, double b) { return propagating(a, b, std::min(a, b)); }},
};
const Case kComparisons[] = {
    {"equal", equal, [](double a, double b) { return double(a == b); }},
    {"not_equal", not_equal, [](double a, double b) { return double(a != b); }},
    {"less", less, [](double a, double b) { return double(a < b); }},
    {"less_equal", less_equal, [](double a, double b) { return double(a <= b); }},
    {"greater", greater, [](double a, double b) { return double(a > b); }},
    {"greater_equal", greater_equal, [](double a, double b) { return double(a >= b); }},
};

// Operands that broadcast with x: of its shape in three layouts, a row, a column, a scalar, more dimensions.
std::vector<Tensor> partners(const Tensor& x, double low) {
  const auto make = [&](const Shape& shape) { return random_tensor(shape, x.dtype(), 99, low, 2); };
  std::vector<Tensor> all = {make(x.shape()), make({}), make({1, 1})};
  Tensor alike = Tensor::empty_like(x);
  all.push_back(alike.copy_from(all[0]));
  if (x.rank() > 0) {
    all.push_back(make({x.shape().back()}));
    Shape column = x.shape(), channel = Dims::filled(x.rank(), 1);
    column[x.rank() - 1] = 1;
    channel[x.rank() / 2] = x.shape()[x.rank() / 2];
    all.push_back(make(column));
    all.push_back(make(channel));
  }
  if (x.rank() < kMaxRank) {
    Shape larger = {3};
    for (const std::int64_t size : x.shape()) larger.push_back(size);
    all.push_back(make(larger));
  }
  return all;
}

void check(const Case& c, const Tensor& a, const Tensor& b, DType dtype) {
  const Tensor out = c.op(a, b);
  ASSERT_EQ(out.dtype(), dtype);
  ASSERT_EQ(out.shape(), broadcast_shape("test", a.shape(), b.shape()));
  const auto x = a.to_vector<double>(), y = b.to_vector<double>(), got = out.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const double wanted = c.reference(x[broadcast_index(index, a.shape(), out.shape())],
                                      y[broadcast_index(index, b.shape(), out.shape())]);
    ASSERT_TRUE(close(got[i], wanted, dtype == DType::float64 ? 0 : epsilon(dtype) * std::fabs(wanted)))
        << c.name << " gives " << got[i] << ", not " << wanted << ": " << describe(a) << " and " << describe(b);
  }
}

TEST(Binary, ArithmeticMatchesReferenceForEveryLayoutAndBroadcast) {
  for (const DType dtype : kFloating)
    for (const Tensor& x : awkward_tensors(dtype, 0.25))
      for (const Tensor& y : partners(x, 0.25))
        for (const Case& c : kArithmetic) {
          check(c, x, y, dtype);
          check(c, y, x, dtype);
        }
}

TEST(Binary, IntegerArithmetic) {
  for (const DType dtype : {DType::int64, DType::int32}) {
    const Tensor a = Tensor::from<std::int64_t>({7, -7, 5, 0, 3, -9}, {2, 3}).to(dtype);
    const Tensor b = Tensor::from<std::int64_t>({2, 2, -1}).to(dtype);
    const auto values = [](const Tensor& t) { return t.to_vector<std::int64_t>(); };
    EXPECT_EQ(add(a, b).dtype(), dtype);
    EXPECT_EQ(values(add(a, b)), (std::vector<std::int64_t>{9, -5, 4, 2, 5, -10}));
    EXPECT_EQ(values(sub(a, b)), (std::vector<std::int64_t>{5, -9, 6, -2, 1, -8}));
    EXPECT_EQ(values(mul(a, b)), (std::vector<std::int64_t>{14, -14, -5, 0, 6, 9}));
    EXPECT_EQ(values(div(a, b)), (std::vector<std::int64_t>{3, -3, -5, 0, 1, 9}));
    EXPECT_EQ(values(maximum(a, b)), (std::vector<std::int64_t>{7, 2, 5, 2, 3, -1}));
    EXPECT_EQ(values(minimum(a, b)), (std::vector<std::int64_t>{2, -7, -1, 0, 2, -9}));
    TANDEM_EXPECT_ERROR(div(a, Tensor::zeros({1}, {.dtype = dtype})), "div: division by zero");
  }
  // What does not fit wraps around; in particular it does not trap.
  const Tensor lowest = Tensor::from<std::int32_t>({std::numeric_limits<std::int32_t>::min()});
  const Tensor minus_one = Tensor::from<std::int32_t>({-1});
  EXPECT_EQ(div(lowest, minus_one).to_vector<std::int32_t>(), lowest.to_vector<std::int32_t>());
  EXPECT_EQ(add(lowest, minus_one).to_vector<std::int32_t>()[0], std::numeric_limits<std::int32_t>::max());
}

TEST(Binary, ComparisonsOfAllDtypes) {
  for (const DType dtype : kEveryDType) {
    const double low = dtype == DType::uint8 || dtype == DType::boolean ? 0 : -2;
    for (const Tensor& x : awkward_tensors(dtype, low))
      for (const Tensor& y : partners(x, low))
        for (const Case& c : kComparisons) check(c, x, y, DType::boolean);
  }
}

TEST(Binary, InfinitiesAndNan) {
  const std::vector<double> values = {kInfinity, -kInfinity, kNan, 0, -0.0, 1};
  for (const DType dtype : kFloating) {
    const Tensor row = Tensor::from(values).to(dtype), column = Tensor::from(values, {6, 1}).to(dtype);
    for (const Case& c : kArithmetic) check(c, row, column, dtype);
    for (const Case& c : kComparisons) check(c, row, column, DType::boolean);
  }
}

TEST(Binary, ResultIsLaidOutAsTheFullDenseOperand) {
  const Tensor last = Tensor::zeros({2, 3, 4, 5}, {.format = MemoryFormat::channels_last});
  const Tensor plain = Tensor::zeros({2, 3, 4, 5}), bias = Tensor::zeros({3, 1, 1});
  EXPECT_TRUE(add(last, bias).is_channels_last());
  EXPECT_TRUE(add(bias, last).is_channels_last());
  EXPECT_TRUE(less(last, bias).is_channels_last());
  EXPECT_TRUE(add(last, plain).is_channels_last());
  EXPECT_TRUE(add(plain, last).is_contiguous());
  EXPECT_TRUE(add(last.slice(1, 0, 2), bias.slice(0, 0, 2)).is_contiguous());
  EXPECT_TRUE(
      add(plain.slice(1, 0, 2), last.slice(1, 0, 2).contiguous(MemoryFormat::channels_last)).is_channels_last());
}

TEST(Binary, AccumulateInPlace) {
  for (const DType dtype : kFloating)
    for (const Tensor& like : awkward_tensors(dtype))
      for (const Tensor& b : partners(like, -2)) {
        if (broadcast_shape("test", like.shape(), b.shape()) != like.shape()) continue;
        // A destination with gaps, which must stay as they are, and one without.
        for (const bool gaps : {false, true}) {
          Shape wide = like.shape();
          if (gaps && wide.rank() == 0) continue;
          if (gaps) wide[wide.rank() - 1] = 2 * wide.back() + 1;
          Tensor whole = random_tensor(wide, dtype, 4);
          Tensor a = gaps ? whole.slice(-1, 1, wide.back(), 2) : whole;
          ASSERT_EQ(a.shape(), like.shape());
          const Tensor wanted = add(a.clone(), b);
          const Tensor between = gaps ? whole.slice(-1, 0, wide.back(), 2) : Tensor();
          const auto untouched = gaps ? between.to_vector<double>() : std::vector<double>{};
          accumulate(a, b);
          ASSERT_EQ(a.to_vector<double>(), wanted.to_vector<double>()) << describe(a) << " and " << describe(b);
          if (gaps) {
            ASSERT_EQ(between.to_vector<double>(), untouched);
          }
        }
      }
}

TEST(Binary, AccumulateOfItsOwnMemory) {
  Tensor a = Tensor::arange(4, DType::float32);
  accumulate(a, a);
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{0, 2, 4, 6}));
  Tensor square = Tensor::arange(4, DType::float32).reshape({2, 2});
  accumulate(square, square.transpose(0, 1));
  EXPECT_EQ(square.to_vector<float>(), (std::vector<float>{0, 3, 3, 6}));
  Tensor row = Tensor::arange(5, DType::float32);
  Tensor head = row.slice(0, 1, 5);
  accumulate(head, row.slice(0, 0, 4));
  EXPECT_EQ(row.to_vector<float>(), (std::vector<float>{0, 1, 3, 5, 7}));
}

TEST(Binary, ErrorsNameOperatorAndShapes) {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({2, 4}), ints = Tensor::arange(3);
  TANDEM_EXPECT_ERROR(add(a, b), "add: shapes [2, 3] and [2, 4] do not broadcast");
  TANDEM_EXPECT_ERROR(mul(a, ints), "mul: dtypes differ: float32 [2, 3] and int64 [3]");
  TANDEM_EXPECT_ERROR(less(a, ints), "less: dtypes differ");
  TANDEM_EXPECT_ERROR(sub(a, Tensor()), "sub: the second operand is undefined");
  TANDEM_EXPECT_ERROR(add(equal(a, a), equal(a, a)), "add: needs float32, float64, bfloat16, int64 or int32, got bool");
  Tensor row = Tensor::zeros({3});
  TANDEM_EXPECT_ERROR(accumulate(row, a), "accumulate: [2, 3] does not broadcast to [3]");
  Tensor repeated = row.expand({2, 3});
  TANDEM_EXPECT_ERROR(accumulate(repeated, a), "accumulate: cannot write in place to [2, 3]");
}

}  // namespace
}  // namespace tandem::core
