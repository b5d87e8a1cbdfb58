#include "tandem/core/ops/unary.h"
#include "tests/core/conv2d_reference.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using namespace testing;

const std::vector<Conv2dCase> kCases{
    {{2, 3, 5, 6}, {4, 3, 3, 3}, {}},
    {{2, 1, 9, 8}, {32, 1, 3, 3}, {}},
    {{3, 1, 7, 7}, {6, 1, 5, 5}, {.padding = {2, 2}}},
    {{1, 1, 1, 1}, {1, 1, 1, 1}, {}},
    // One place high, or wide, or both: in several memory orders at once, and much of the kernel sees padding only.
    {{2, 3, 1, 1}, {4, 3, 1, 1}, {}},
    {{2, 3, 1, 1}, {4, 3, 3, 3}, {.padding = {1, 1}}},
    {{2, 3, 1, 1}, {5, 3, 3, 3}, {.stride = {2, 2}, .padding = {2, 2}}},
    {{2, 4, 5, 1}, {6, 2, 3, 3}, {.padding = {0, 1}, .groups = 2}},
    {{2, 3, 1, 5}, {4, 3, 1, 2}, {.stride = {1, 4}}},
    {{2, 3, 2, 2}, {4, 3, 1, 1}, {.stride = {2, 2}}},
    {{2, 3, 1, 2}, {4, 3, 1, 1}, {.stride = {3, 3}, .padding = {1, 1}}},
    {{2, 3, 4, 4}, {4, 3, 3, 2}, {.stride = {3, 1}, .padding = {1, 2}, .dilation = {2, 3}}},
    {{2, 2, 6, 5}, {3, 2, 2, 3}, {.stride = {2, 1}, .padding = {1, 0}}},
    {{2, 4, 9, 9}, {6, 2, 3, 3}, {.stride = {1, 2}, .padding = {1, 2}, .dilation = {2, 1}, .groups = 2}},
    {{1, 6, 7, 7}, {9, 2, 3, 2}, {.dilation = {1, 2}, .groups = 3}},
    {{2, 8, 6, 6}, {8, 1, 3, 3}, {.padding = {1, 1}, .groups = 8}},
    {{2, 16, 8, 8}, {32, 16, 1, 1}, {.stride = {2, 2}}},
    {{2, 32, 7, 7}, {64, 32, 3, 3}, {.padding = {1, 1}}},
    // 1x1: few pixels and many, more channels of fewer and the reverse.
    {{2, 20, 6, 5}, {40, 20, 1, 1}, {}},
    {{2, 40, 6, 5}, {20, 40, 1, 1}, {}},
    {{2, 8, 30, 20}, {16, 8, 1, 1}, {}},
    {{2, 16, 30, 20}, {8, 16, 1, 1}, {}},
    {{2, 3, 17, 17}, {16, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
    {{1, 19, 6, 9}, {21, 19, 3, 3}, {.padding = {1, 1}}},
    {{0, 3, 5, 5}, {4, 3, 3, 3}, {}},
    {{2, 3, 4, 4}, {0, 3, 3, 3}, {}},
    {{2, 5, 4, 4}, {7, 5, 4, 4}, {}},
};

TEST(Conv2d, ForwardAndGradientsAgreeWithReference) {
  for (const auto& [dtype, parameter] : kPrecisions)
    for (const Conv2dCase& c : kCases)
      for (const Layout layout : kImageLayouts) {
        const Shape ys = conv2d_shape(c.x, c.weight, c.options);
        const Tensor x = laid_out(numbers(c.x, dtype), layout), w = numbers(c.weight, parameter, 2);
        const Tensor b = numbers({ys[1]}, parameter, 3), dy = laid_out(numbers(ys, dtype, 4), layout);
        const Conv2dReference wanted(c, x, w, b, dy);
        const std::string what = fmt::format("{} x {} w {} groups {} layout {}", name(dtype), c.x.str(), c.weight.str(),
                                             c.options.groups, static_cast<int>(layout));
        const double depth = static_cast<double>(c.weight[1] * c.weight[2] * c.weight[3] + 1),
                     scale = 2 * std::sqrt(depth);
        const Tensor y = conv2d(x, w, b, c.options);
        ASSERT_EQ(y.shape(), ys);
        ASSERT_EQ(y.dtype(), dtype);
        EXPECT_TRUE(y.is_channels_last());
        expect_close(y, wanted.y, scale, "y " + what);
        Conv2dOptions relu = c.options;
        relu.activation = Activation::relu;
        std::vector<double> positive = wanted.y;
        for (double& v : positive) v = std::max(v, 0.0);
        expect_close(conv2d(x, w, b, relu), positive, scale, "relu " + what);
        const Tensor dx = conv2d_backward_input(dy, w, c.x, c.options);
        EXPECT_TRUE(dx.is_channels_last());
        expect_close(dx, wanted.dx,
                     2 * std::sqrt(depth * static_cast<double>(c.weight[0] + 1) / static_cast<double>(c.weight[1])),
                     "dx " + what);
      }
}

TEST(Conv2d, WeightGradientsOverwriteAndAddInAnyLayout) {
  for (const DType dtype : kFloating)
    for (const Conv2dCase& c : kCases)
      for (const Layout layout : kImageLayouts)
        for (const bool accumulate : {false, true})
          for (const DType gradient : {dtype, DType::float32}) {
            if (dtype == DType::float64 && gradient != dtype) continue;
            const Shape ys = conv2d_shape(c.x, c.weight, c.options);
            const Tensor x = numbers(c.x, dtype), dy = numbers(ys, dtype, 4), old = numbers(c.weight, gradient, 5);
            const Tensor old_bias = numbers({ys[1]}, gradient, 6);
            Conv2dReference wanted(c, x, numbers(c.weight, dtype), numbers({ys[1]}, dtype), dy);
            Tensor dw = laid_out(old.clone(), layout), db = laid_out(old_bias.clone(), layout);
            const auto vw = old.to_vector<double>(), vb = old_bias.to_vector<double>();
            if (accumulate) {
              for (std::size_t i = 0; i < vw.size(); ++i) wanted.dweight[i] += vw[i];
              for (std::size_t i = 0; i < vb.size(); ++i) wanted.dbias[i] += vb[i];
            }
            const std::string what = fmt::format("{} x {} w {} layout {} {}", name(dtype), c.x.str(), c.weight.str(),
                                                 static_cast<int>(layout), accumulate);
            const double scale = 2 * std::sqrt(static_cast<double>(ys[0] * ys[2] * ys[3] + 1));
            conv2d_backward_weight(dy, x, dw, accumulate, c.options);
            expect_close(dw, wanted.dweight, scale, "dw " + what);
            conv2d_backward_bias(dy, db, accumulate);
            expect_close(db, wanted.dbias, scale, "db " + what);
          }
}

// What oneDNN cannot describe: rows of one dimension interlock with those of another.
TEST(Conv2d, WeightGradientsGoIntoInterlockedViews) {
  const Conv2dCase c{{2, 8, 6, 6}, {5, 8, 3, 3}, {.padding = {1, 1}}};
  for (const auto& [dtype, parameter] : kPrecisions)
    for (const bool accumulate : {false, true}) {
      const Tensor x = numbers(c.x, dtype), dy = numbers({2, 5, 6, 6}, dtype, 4), old = numbers(c.weight, parameter, 5);
      Tensor dw = poison({5, 8, 3, 5}, parameter).slice(3, 0, 5, 2).copy_from(old);
      Conv2dReference wanted(c, x, old, numbers({5}, parameter), dy);
      if (accumulate)
        for (std::size_t i = 0; i < wanted.dweight.size(); ++i) wanted.dweight[i] += old.to_vector<double>()[i];
      conv2d_backward_weight(dy, x, dw, accumulate, c.options);
      expect_close(dw, wanted.dweight, 20, fmt::format("{} {} {}", name(dtype), name(parameter), accumulate));
    }
}

// Also on NaN, which a fused ReLU easily makes 0.
TEST(Conv2d, FusedReluIsThatOfItsParts) {
  const std::vector<double> special{1, kNan, -2, kInfinity, -kInfinity, 0., -0., 1e-40, -1e-40, 3, -3, 1e30};
  for (const DType dtype : kFloating)
    for (const std::int64_t channels : {1, 2, 4, 12})
      for (const std::int64_t size : {1, 3}) {
        const Tensor x = Tensor::from(special, {1, channels, 12 / channels, 1}).to(dtype);
        const Tensor w = numbers({16, channels, size, size}, dtype), bias = numbers({16}, dtype, 2);
        const Conv2dOptions plain{.padding = {size / 2, size / 2}};
        Conv2dOptions fused = plain;
        fused.activation = Activation::relu;
        const auto got = conv2d(x, w, bias, fused).to_vector<double>();
        const auto wanted = relu(conv2d(x, w, bias, plain)).to_vector<double>();
        EXPECT_TRUE(std::any_of(wanted.begin(), wanted.end(), [](double v) { return std::isnan(v); }));
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_TRUE(close(got[i], wanted[i], 0)) << name(dtype) << " " << channels << " at " << i << ": " << got[i];
          EXPECT_TRUE(std::isnan(wanted[i]) || std::signbit(got[i]) == std::signbit(wanted[i])) << wanted[i];
        }
      }
}

// Kernels that multiply channels in pairs read one channel further than an odd number of them.
TEST(Conv2d, ANaNReachesTheWindowsThatSeeItAndNoOther) {
  constexpr std::int64_t kSide = 9, kAt = 4;
  for (const auto& [dtype, parameter] : kPrecisions)
    for (const std::int64_t channels : {1, 2, 3, 5, 17})
      for (const std::int64_t reach : {0, 1})
        for (const double value : {std::nan(""), HUGE_VAL}) {
          const std::int64_t width = 2 * reach + 1;
          std::vector<double> pixels(static_cast<std::size_t>(2 * channels * kSide * kSide), 1);
          pixels[static_cast<std::size_t>(((channels - 1) * kSide + kAt) * kSide + kAt)] = value;
          const Tensor x = Tensor::from(pixels, {2, channels, kSide, kSide}).to(dtype);
          const Tensor y =
              conv2d(x, numbers({20, channels, width, width}, parameter), Tensor(), {.padding = {reach, reach}});
          const auto elements = y.to_vector<double>();
          for (std::int64_t i = 0; i < y.numel(); ++i) {
            const std::int64_t image = i / (20 * kSide * kSide), h = i / kSide % kSide, w = i % kSide;
            const bool sees = image == 0 && std::abs(h - kAt) <= reach && std::abs(w - kAt) <= reach;
            ASSERT_EQ(!std::isfinite(elements[static_cast<std::size_t>(i)]), sees)
                << name(dtype) << ", " << channels << " channels, " << width << " x " << width << ", element " << i;
          }
        }
}

TEST(Conv2dReluBackward, MasksAndSumsInOnePass) {
  for (const DType dtype : kFloating)
    for (const Shape& shape : {Shape{2, 5, 3, 4}, Shape{3, 64, 9, 9}, Shape{1, 33, 1, 1}, Shape{0, 3, 2, 2}})
      for (const Layout layout : kImageLayouts)
        for (const bool accumulate : {false, true}) {
          const Tensor dy = laid_out(numbers(shape, dtype), layout), y = laid_out(numbers(shape, dtype, 2), layout);
          Tensor db = numbers({shape[1]}, dtype, 3);
          std::vector<double> wanted = dy.to_vector<double>(), sums = db.to_vector<double>();
          const auto vy = y.to_vector<double>();
          if (!accumulate) std::fill(sums.begin(), sums.end(), 0);
          for (std::size_t i = 0; i < wanted.size(); ++i) {
            if (vy[i] <= 0) wanted[i] = 0;
            sums[i / at(shape[2] * shape[3]) % at(shape[1])] += wanted[i];
          }
          const Tensor masked = conv2d_relu_backward(dy, y, db, accumulate);
          expect_close(masked, wanted, 0, "mask");
          expect_close(db, sums, 4, "sum");
          Tensor none;
          expect_close(conv2d_relu_backward(dy, y, none, accumulate), wanted, 0, "mask alone");
        }
}

TEST(Conv2dReluBackward, ReusesMemoryThatNobodyElseSees) {
  Tensor dy = Tensor::full({2, 3, 4, 4}, 1, {.format = MemoryFormat::channels_last}), none;
  const Tensor y = numbers({2, 3, 4, 4}, DType::float32);
  const void* memory = testing::address_of(dy);
  const Tensor kept = dy;
  EXPECT_NE(testing::address_of(conv2d_relu_backward(dy, y, none, false)), memory);
  EXPECT_EQ(kept.to_vector<float>(), std::vector<float>(96, 1));
  Tensor own = dy.clone();
  const void* own_memory = testing::address_of(own);
  EXPECT_EQ(testing::address_of(conv2d_relu_backward(std::move(own), y, none, false)), own_memory);
}

TEST(Conv2dReluBackward, PassesNothingWhereTheOutputIsNaN) {
  Tensor y = Tensor::full({1, 2, 1, 2}, 1, {.format = MemoryFormat::channels_last});
  testing::set_element(y, 1, std::numeric_limits<float>::quiet_NaN());
  const Tensor dy = Tensor::full({1, 2, 1, 2}, 3, {.format = MemoryFormat::channels_last});
  Tensor dbias = Tensor::empty({2});
  const Tensor dx = conv2d_relu_backward(dy, y, dbias, false);
  EXPECT_EQ(dx.to_vector<float>(), (std::vector<float>{3, 3, 0, 3}));
  EXPECT_EQ(dbias.to_vector<float>(), (std::vector<float>{6, 3}));
}

TEST(Conv2d, PackedWeightsFollowTheWeights) {
  const Tensor x = Tensor::full({1, 32, 4, 4}, 1, {.format = MemoryFormat::channels_last});
  Tensor both = Tensor::full({2, 32, 32, 1, 1}, 1);
  Tensor w = both.select(0, 0), other = both.select(0, 1);  // two parameters in one storage
  const auto first = [&](const Tensor& weight) { return conv2d(x, weight, Tensor()).to_vector<float>()[0]; };
  EXPECT_EQ(first(w), 32);
  EXPECT_EQ(first(w), 32);  // kept from the second use on
  const auto packed = reorder_statistics().weights;
  EXPECT_EQ(first(w), 32);
  EXPECT_EQ(reorder_statistics().weights, packed);
  other.fill(2);
  EXPECT_EQ(first(other), 64);
  EXPECT_EQ(first(w), 32);
  w.fill(3);
  EXPECT_EQ(first(w), 96);
  EXPECT_EQ(conv2d_backward_input(x, w, x.shape()).to_vector<float>()[0], 96);
}

TEST(Conv2d, CountsConversionsOfActivations) {
  const Tensor w = Tensor::full({4, 3, 1, 1}, 1), x = Tensor::full({2, 3, 4, 4}, 1);
  const auto before = reorder_statistics().activations;
  conv2d(x.contiguous(MemoryFormat::channels_last), w, Tensor());
  EXPECT_EQ(reorder_statistics().activations, before);
  conv2d(x, w, Tensor());
  EXPECT_EQ(reorder_statistics().activations, before + 1);
}

TEST(Conv2d, OwnKernelsHaveTheSameBitsForAnyNumberOfThreads) {
  const Tensor x = numbers({8, 1, 20, 20}, DType::float64), dy = numbers({8, 32, 18, 18}, DType::float64, 2);
  const Tensor w = numbers({32, 1, 3, 3}, DType::float64, 3);
  const auto of_weight = [&] {
    Tensor dw = Tensor::zeros({32, 1, 3, 3}, {.dtype = DType::float64});
    conv2d_backward_weight(dy, x, dw, false);
    return dw.to_vector<double>();
  };
  const auto of_input = [&] { return conv2d_backward_input(dy, w, x.shape()).to_vector<double>(); };
  EXPECT_EQ(with_threads(3, of_weight), with_threads(1, of_weight));
  EXPECT_EQ(with_threads(3, of_input), with_threads(1, of_input));
}

TEST(Conv2d, ErrorsNameTheShapes) {
  const auto f32 = [](const Shape& s) { return Tensor::zeros(s); };
  TANDEM_EXPECT_ERROR(conv2d(f32({2, 3, 4, 4}), f32({8, 4, 3, 3}), Tensor()),
                      "conv2d: channels do not fit: x [2, 3, 4, 4] and weight [8, 4, 3, 3] with 1 groups");
  TANDEM_EXPECT_ERROR(conv2d(f32({2, 3, 4}), f32({8, 4, 3, 3}), Tensor()), "got [2, 3, 4]");
  TANDEM_EXPECT_ERROR(conv2d(f32({2, 3, 4, 4}), f32({8, 3, 3, 3}).to(DType::bfloat16), Tensor()),
                      "conv2d: weight is bfloat16, activations are float32: needed is float32");
  TANDEM_EXPECT_ERROR(conv2d(f32({2, 3, 4, 4}), f32({8, 3, 5, 5}), Tensor()), "does not fit into x [2, 3, 4, 4]");
  TANDEM_EXPECT_ERROR(conv2d(f32({2, 3, 4, 4}), f32({8, 3, 3, 3}), f32({7})),
                      "bias [7] does not fit weight [8, 3, 3, 3]");
  TANDEM_EXPECT_ERROR(conv2d(f32({2, 3, 4, 4}), f32({8, 3, 3, 3}), Tensor(), {.stride = {0, 1}}), "stride 0");
  TANDEM_EXPECT_ERROR(conv2d_backward_input(f32({2, 8, 4, 4}), f32({8, 3, 3, 3}), {2, 3, 4, 4}), "dy is [2, 8, 4, 4]");
  Tensor three = f32({3}), none;
  TANDEM_EXPECT_ERROR(conv2d_backward_bias(f32({2, 8, 4, 4}), three, false), "destination is [3], needed is [8]");
  TANDEM_EXPECT_ERROR(conv2d_relu_backward(f32({2, 8, 4, 4}), f32({2, 8, 4, 3}), none, false),
                      "[2, 8, 4, 4] and y [2, 8, 4, 3]");
}

}  // namespace
}  // namespace tandem::core
