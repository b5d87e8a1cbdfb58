#include "tandem/core/tensor.h"

#include <gtest/gtest.h>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

std::vector<float> floats(const Tensor& t) { return t.to_vector<float>(); }

Tensor counting(const Shape& shape) { return Tensor::arange(numel(shape), DType::float32).reshape(shape); }

TEST(Tensor, Undefined) {
  const Tensor none = Tensor();
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(none.str(), "none");
  EXPECT_EQ(none.version(), 0u);
  EXPECT_FALSE(none.is_unique());
  TANDEM_EXPECT_ERROR(none.data<float>(), "tensor: data of an undefined tensor was asked for");
  TANDEM_EXPECT_ERROR(none.item(), "item: needs one element, got none");
}

TEST(Tensor, MakingAllDtypes) {
  for (const DType dtype : kEveryDType) {
    const Tensor ones = Tensor::full({2, 3}, 1, {.dtype = dtype});
    EXPECT_EQ(ones.dtype(), dtype);
    EXPECT_EQ(ones.bytes(), 6 * item_size(dtype));
    EXPECT_EQ(ones.to_vector<double>(), std::vector<double>(6, 1));
    EXPECT_EQ(Tensor::zeros_like(ones).to_vector<double>(), std::vector<double>(6, 0));
    EXPECT_EQ(Tensor::scalar(1, dtype).item(), 1);
    EXPECT_EQ(Tensor::arange(2, dtype).to_vector<double>(), (std::vector<double>{0, 1}));
  }
  EXPECT_EQ(Tensor::scalar(2.5).rank(), 0);
  EXPECT_EQ(floats(Tensor::from<float>({1, 2, 3, 4}, {2, 2}).select(0, 1)), (std::vector<float>{3, 4}));
  TANDEM_EXPECT_ERROR(Tensor::from<float>({1, 2}, {3}), "from: 2 values for shape [3]");
  TANDEM_EXPECT_ERROR(Tensor::empty({2, -1}), "negative size");
  EXPECT_EQ(Tensor::empty({0}).numel(), 0);
  TANDEM_EXPECT_ERROR(Tensor::empty({1}, {.device = {DeviceType::cuda, 1}}),
                      "allocator: this build has no memory on device cuda:1");
}

TEST(Tensor, DataChecksTheType) {
  Tensor t = Tensor::zeros({2, 3}, {.device = kCpu});
  TANDEM_EXPECT_ERROR(t.data<double>(), "tensor: data asked for as float64, the tensor is float32 [2, 3]");
  const auto version = t.version();
  t.data<float>();
  t.raw_data();
  EXPECT_EQ(t.version(), version);
  t.mutable_data<float>();
  EXPECT_EQ(t.version(), version + 1);
  t.mutable_raw_data();
  EXPECT_EQ(t.version(), version + 2);
  EXPECT_EQ(t.select(0, 1).raw_data(), t.data<float>() + 3);
}

TEST(Tensor, LayoutPredicates) {
  const Tensor plain = Tensor::zeros({2, 3, 4, 5}), last = plain.contiguous(MemoryFormat::channels_last);
  EXPECT_TRUE(plain.is_contiguous() && plain.is_dense() && !plain.is_channels_last());
  EXPECT_TRUE(!last.is_contiguous() && last.is_dense() && last.is_channels_last());
  const Tensor both = Tensor::zeros({2, 1, 4, 5});
  EXPECT_TRUE(both.is_contiguous() && both.is_channels_last());
  EXPECT_TRUE(Tensor::zeros({2, 3, 1, 1}).is_channels_last());
  const Tensor permuted = plain.permute({3, 1, 0, 2});
  EXPECT_TRUE(permuted.is_dense() && !permuted.is_contiguous() && !permuted.is_channels_last());
  EXPECT_FALSE(plain.slice(3, 0, 4).is_dense());
  EXPECT_TRUE(plain.slice(0, 1, 2).is_dense() && plain.slice(0, 1, 2).is_contiguous());
  EXPECT_FALSE(Tensor::zeros({3, 1}).expand({3, 4}).is_dense());
  EXPECT_TRUE(Tensor::scalar(1).is_contiguous() && Tensor::scalar(1).is_dense());
  const Tensor empty = Tensor::zeros({3, 4}).slice(1, 4, 4);
  EXPECT_TRUE(empty.is_contiguous() && empty.is_dense()) << "no elements are in any order";
  EXPECT_FALSE(Tensor::zeros({2, 3, 4}).is_channels_last());
}

TEST(Tensor, EmptyLikeKeepsDenseLayouts) {
  for (const Tensor& x : awkward_tensors(DType::bfloat16)) {
    const Tensor y = Tensor::empty_like(x);
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.dtype(), x.dtype());
    EXPECT_TRUE(y.is_dense());
    if (x.is_dense()) {
      EXPECT_EQ(y.strides(), x.strides()) << describe(x);
    } else {
      EXPECT_TRUE(y.is_contiguous()) << describe(x);
    }
  }
}

TEST(Tensor, ViewsShareMemory) {
  Tensor t = counting({2, 3});
  Tensor view = t.transpose(0, 1);
  EXPECT_EQ(view.shape(), (Shape{3, 2}));
  EXPECT_EQ(floats(view), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_FALSE(t.is_unique());
  view.fill(7);
  EXPECT_EQ(floats(t), std::vector<float>(6, 7));
  EXPECT_EQ(t.version(), view.version());
  EXPECT_TRUE(t.transpose(-1, -2).is_same_view(view));
  EXPECT_FALSE(t.is_same_view(view));
  EXPECT_FALSE(t.is_same_view(t.clone()));
}

TEST(Tensor, Permute) {
  const Tensor t = counting({2, 3, 4});
  const Tensor p = t.permute({2, 0, -2});
  EXPECT_EQ(p.shape(), (Shape{4, 2, 3}));
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 2; ++b)
      for (int c = 0; c < 3; ++c) EXPECT_EQ(p.select(0, a).select(0, b).select(0, c).item(), b * 12 + c * 4 + a);
  TANDEM_EXPECT_ERROR(t.permute({0, 1}), "permute: 2 dimensions named for shape [2, 3, 4]");
  TANDEM_EXPECT_ERROR(t.permute({0, 1, -2}), "permute: dimension 1 of [2, 3, 4] is named twice");
  TANDEM_EXPECT_ERROR(t.permute({0, 1, 3}), "permute: no dimension 3");
}

// Start and end as Python has them.
TEST(Tensor, Slice) {
  const Tensor t = counting({7});
  const auto part = [&](std::int64_t start, std::int64_t end, std::int64_t step = 1) {
    return floats(t.slice(0, start, end, step));
  };
  EXPECT_EQ(part(2, 5), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(part(-3, 100), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(part(0, -5), (std::vector<float>{0, 1}));
  EXPECT_EQ(part(-100, 2), (std::vector<float>{0, 1}));
  EXPECT_EQ(part(1, 7, 3), (std::vector<float>{1, 4}));
  EXPECT_EQ(part(1, 7, 2), (std::vector<float>{1, 3, 5}));
  EXPECT_EQ(part(0, 7, std::int64_t{1} << 62), (std::vector<float>{0}));
  EXPECT_TRUE(part(5, 2).empty());
  EXPECT_TRUE(part(7, 9).empty());
  EXPECT_TRUE(floats(Tensor::zeros({0, 5}).slice(1, 2, 4)).empty());
  EXPECT_TRUE(floats(Tensor::zeros({0, 5}).slice(1, 2, 4).to(DType::bfloat16)).empty());
  TANDEM_EXPECT_ERROR(t.slice(0, 0, 7, 0), "slice: step 0 is not positive");
  TANDEM_EXPECT_ERROR(t.slice(1, 0, 7), "slice: no dimension 1");
}

TEST(Tensor, SelectSqueezeUnsqueeze) {
  const Tensor t = counting({2, 3});
  EXPECT_EQ(floats(t.select(1, -1)), (std::vector<float>{2, 5}));
  EXPECT_EQ(floats(t.select(0, 0)), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(t.select(0, 1).select(0, 2).item(), 5);
  TANDEM_EXPECT_ERROR(t.select(1, 3), "select: index 3 in dimension 1 of [2, 3]");
  TANDEM_EXPECT_ERROR(t.select(1, -4), "select: index -4");
  for (int dim = 0; dim <= 2; ++dim) {
    const Tensor wide = t.unsqueeze(dim);
    EXPECT_EQ(wide.size(dim), 1);
    EXPECT_TRUE(wide.is_contiguous());
    EXPECT_TRUE(wide.squeeze(dim).is_same_view(t));
  }
  EXPECT_EQ(t.unsqueeze(-1).shape(), (Shape{2, 3, 1}));
  TANDEM_EXPECT_ERROR(t.squeeze(0), "squeeze: dimension 0 of [2, 3] is not 1");
  TANDEM_EXPECT_ERROR(t.unsqueeze(3), "unsqueeze: no dimension 3");
  TANDEM_EXPECT_ERROR(Tensor::zeros({1, 1, 1, 1, 1, 1}).unsqueeze(0), "7 dimensions");
}

TEST(Tensor, Expand) {
  const Tensor row = counting({3}), column = counting({2, 1});
  EXPECT_EQ(floats(row.expand({2, 3})), (std::vector<float>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(floats(column.expand({2, 3})), (std::vector<float>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(Tensor::scalar(4).expand({2, 2}).to_vector<float>(), std::vector<float>(4, 4));
  EXPECT_EQ(column.expand({0, 2, 0}).numel(), 0);
  TANDEM_EXPECT_ERROR(row.expand({2, 4}), "expand: [3] does not expand to [2, 4]");
  TANDEM_EXPECT_ERROR(column.expand({2}), "expand: [2, 1] has more dimensions than [2]");
  TANDEM_EXPECT_ERROR(column.expand({2, -1}), "expand");
  TANDEM_EXPECT_ERROR(row.expand({-1, 3}), "expand");
}

// Whatever the layout: the elements in order stay the same, and a view is taken exactly where one exists.
TEST(Tensor, ReshapeOfEveryLayout) {
  for (const Tensor& x : awkward_tensors(DType::float32)) {
    const auto values = floats(x);
    std::vector<Shape> shapes = {{x.numel()}, {1, x.numel(), 1}, x.shape()};
    for (const std::int64_t factor : {2, 3, 5, 6})
      if (x.numel() % factor == 0)
        shapes.insert(shapes.end(), {{factor, x.numel() / factor}, {x.numel() / factor, 1, factor}});
    for (const Shape& shape : shapes) {
      const Tensor y = x.reshape(shape);
      ASSERT_EQ(y.shape(), shape);
      ASSERT_EQ(floats(y), values) << describe(x) << " to " << shape.str();
      Strides strides;
      ASSERT_EQ(x.can_view_as(shape, &strides), y.storage() == x.storage());
      ASSERT_TRUE(!x.is_contiguous() || y.storage() == x.storage());
    }
  }
  const Tensor rows = counting({4, 6}).slice(0, 0, 4, 2);  // splitting a dimension of a view with gaps needs no copy
  EXPECT_TRUE(rows.reshape({2, 2, 3}).storage() == rows.storage());
  EXPECT_FALSE(rows.reshape({12}).storage() == rows.storage());
}

TEST(Tensor, ReshapeWithAnUnknownSize) {
  const Tensor t = counting({2, 6});
  EXPECT_EQ(t.reshape({-1, 4}).shape(), (Shape{3, 4}));
  EXPECT_EQ(t.reshape({-1}).shape(), Shape{12});
  EXPECT_EQ(Tensor::zeros({0, 3}).reshape({-1, 3}).shape(), (Shape{0, 3}));
  TANDEM_EXPECT_ERROR(t.reshape({-1, 5}), "reshape: 12 elements do not fill [-1, 5]");
  TANDEM_EXPECT_ERROR(t.reshape({5, 2}), "reshape: 12 elements do not fill [5, 2]");
  TANDEM_EXPECT_ERROR(t.reshape({-1, -1}), "reshape: more than one -1 in [-1, -1]");
  TANDEM_EXPECT_ERROR(t.reshape({-2, 6}), "reshape: negative size in [-2, 6]");
  TANDEM_EXPECT_ERROR(Tensor::zeros({0, 3}).reshape({-1, 0}), "reshape: 0 elements do not fill [-1, 0]");
}

TEST(Tensor, ContiguousAndCloneOfEveryLayout) {
  for (const Tensor& x : awkward_tensors(DType::float64)) {
    const Tensor y = x.contiguous(), z = x.clone();
    EXPECT_TRUE(y.is_contiguous());
    EXPECT_EQ(y.storage() == x.storage(), x.is_contiguous());
    EXPECT_EQ(y.to_vector<double>(), x.to_vector<double>()) << describe(x);
    EXPECT_FALSE(z.storage() == x.storage());
    EXPECT_TRUE(z.is_dense());
    EXPECT_EQ(z.to_vector<double>(), x.to_vector<double>()) << describe(x);
    if (x.rank() == 4) {
      EXPECT_TRUE(x.contiguous(MemoryFormat::channels_last).is_channels_last());
      EXPECT_EQ(x.contiguous(MemoryFormat::channels_last).to_vector<double>(), x.to_vector<double>());
    }
  }
  TANDEM_EXPECT_ERROR(Tensor::zeros({2, 3}).contiguous(MemoryFormat::channels_last),
                      "channels_last: needs 4 dimensions");
}

TEST(Tensor, ToKeepsDenseLayoutAndCopiesOnlyIfNeeded) {
  const Tensor x = counting({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last);
  EXPECT_TRUE(x.to(DType::float32).is_same_view(x));
  EXPECT_TRUE(x.to(DType::bfloat16).is_channels_last());
  EXPECT_EQ(floats(x.to(DType::int32)), floats(x));
}

TEST(Tensor, CopyFromBroadcastsAndConverts) {
  Tensor t = Tensor::zeros({2, 3});
  EXPECT_TRUE(t.copy_from(Tensor::arange(3)).is_same_view(t));
  EXPECT_EQ(floats(t), (std::vector<float>{0, 1, 2, 0, 1, 2}));
  TANDEM_EXPECT_ERROR(t.copy_from(Tensor::zeros({4})), "expand: [4] does not expand to [2, 3]");
}

TEST(Tensor, FillOfViewsLeavesTheRestAlone) {
  Tensor t = Tensor::zeros({3, 4});
  t.slice(1, 1, 4, 2).fill(1);
  EXPECT_EQ(floats(t), (std::vector<float>{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
  t.transpose(0, 1).select(0, 2).fill(5);
  EXPECT_EQ(floats(t), (std::vector<float>{0, 1, 5, 1, 0, 1, 5, 1, 0, 1, 5, 1}));
  Tensor none = Tensor::zeros({0, 2});
  EXPECT_EQ(none.fill(1).numel(), 0);
}

TEST(Tensor, Printing) {
  EXPECT_EQ(Tensor::from<float>({1, 2.5f}).str(), "float32 [2] {1, 2.5}");
  EXPECT_EQ(Tensor::scalar(3, DType::int64).str(), "int64 [] {3}");
  EXPECT_EQ(Tensor::arange(20).str(), "int64 [20] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...}");
}

TEST(Tensor, WrapsForeignMemoryAndFreesItOnce) {
  float values[4] = {1, 2, 3, 4};
  int freed = 0;
  {
    const Tensor t(StoragePtr(new Storage(values, sizeof values, kCpu, [&] { ++freed; })), {2, 2}, {2, 1}, 0,
                   DType::float32);
    const Tensor view = t.transpose(0, 1);
    EXPECT_EQ(floats(view), (std::vector<float>{1, 3, 2, 4}));
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
}

}  // namespace
}  // namespace tandem::core
