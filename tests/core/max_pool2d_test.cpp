#include "tandem/core/ops/max_pool2d.h"

#include <limits>

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

struct Case {
  Shape x;
  Pool2dOptions options;
  Shape y;
};

// Sizes of the results are PyTorch's.
const std::vector<Case> kCases{
    {{2, 3, 6, 8}, {.kernel = {2, 2}}, {2, 3, 3, 4}},
    {{2, 64, 7, 9}, {.kernel = {2, 2}}, {2, 64, 3, 4}},
    {{1, 35, 7, 9}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, {1, 35, 4, 5}},
    {{2, 4, 7, 7}, {.kernel = {3, 2}, .stride = {1, 3}}, {2, 4, 5, 2}},
    {{2, 4, 7, 7}, {.kernel = {2, 2}, .stride = {3, 3}}, {2, 4, 2, 2}},
    {{2, 4, 7, 7}, {.kernel = {2, 2}, .ceil_mode = true}, {2, 4, 4, 4}},
    {{1, 2, 5, 5}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}, {1, 2, 3, 3}},
    {{1, 2, 3, 3}, {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}, {1, 2, 2, 2}},
    {{1, 1, 1, 1}, {.kernel = {1, 1}}, {1, 1, 1, 1}},
    // One place high, or wide, or both: in several memory orders at once.
    {{2, 3, 1, 1}, {.kernel = {1, 1}}, {2, 3, 1, 1}},
    {{2, 3, 1, 1}, {.kernel = {2, 2}, .stride = {1, 1}, .padding = {1, 1}}, {2, 3, 2, 2}},
    {{2, 35, 1, 1}, {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}}, {2, 35, 1, 1}},
    {{2, 3, 5, 1}, {.kernel = {2, 1}, .stride = {1, 1}}, {2, 3, 4, 1}},
    {{2, 3, 1, 4}, {.kernel = {2, 3}, .stride = {1, 1}, .padding = {1, 1}}, {2, 3, 2, 4}},
    {{2, 5, 2, 2}, {.kernel = {2, 2}}, {2, 5, 1, 1}},
    {{1, 3, 20, 20}, {.kernel = {17, 17}, .stride = {1, 1}}, {1, 3, 4, 4}},
    {{0, 3, 4, 4}, {.kernel = {2, 2}}, {0, 3, 2, 2}},
};

struct Reference {
  std::vector<double> y, dx;

  Reference(const Case& c, const Tensor& x, const Tensor& dy) : y(at(numel(c.y))), dx(at(numel(c.x))) {
    const auto vx = x.to_vector<double>(), vdy = dy.to_vector<double>();
    for (std::int64_t out = 0; out < numel(c.y); ++out) {
      const std::int64_t j = out % c.y[3], i = out / c.y[3] % c.y[2], plane = out / (c.y[3] * c.y[2]);
      std::int64_t best = -1;
      for (std::int64_t p = 0; p < c.options.kernel[0]; ++p)
        for (std::int64_t q = 0; q < c.options.kernel[1]; ++q) {
          const auto step = [&](std::size_t d) {
            return c.options.stride[d] == 0 ? c.options.kernel[d] : c.options.stride[d];
          };
          const std::int64_t h = i * step(0) - c.options.padding[0] + p, w = j * step(1) - c.options.padding[1] + q;
          if (h < 0 || h >= c.x[2] || w < 0 || w >= c.x[3]) continue;
          const std::int64_t in = (plane * c.x[2] + h) * c.x[3] + w;
          if (best < 0 || vx[at(in)] > vx[at(best)] || std::isnan(vx[at(in)])) best = in;
        }
      y[at(out)] = vx[at(best)];
      dx[at(best)] += vdy[at(out)];
    }
  }
};

TEST(MaxPool2d, ForwardAndGradientAgreeWithReference) {
  for (const DType dtype : kFloating)
    for (const Case& c : kCases)
      for (const Layout layout : kImageLayouts) {
        Tensor values = numbers(c.x, DType::float32);
        // Few distinct values, so that ties are common.
        std::vector<float> coarse = values.to_vector<float>();
        for (float& v : coarse) v = std::round(v * 3);
        const Tensor x = laid_out(Tensor::from(coarse, c.x).to(dtype), layout),
                     dy = laid_out(numbers(c.y, dtype, 2), layout);
        const Reference wanted(c, x, dy);
        const auto result = max_pool2d(x, c.options);
        const std::string what = fmt::format("{} {} layout {}", name(dtype), c.x.str(), static_cast<int>(layout));
        ASSERT_EQ(result.output.shape(), c.y) << what;
        expect_close(result.output, wanted.y, 0, what);
        expect_close(max_pool2d_backward(dy, result.indices, c.x, c.options), wanted.dx, 2, "dx " + what);
      }
}

TEST(MaxPool2d, KeepsTheMemoryOrder) {
  const Tensor x = numbers({2, 3, 4, 4}, DType::float32);
  EXPECT_TRUE(max_pool2d(x, {.kernel = {2, 2}}).output.is_contiguous());
  const Tensor last = x.contiguous(MemoryFormat::channels_last);
  const auto pooled = max_pool2d(last, {.kernel = {2, 2}});
  EXPECT_TRUE(pooled.output.is_channels_last());
  EXPECT_TRUE(max_pool2d_backward(pooled.output, pooled.indices, {2, 3, 4, 4}, {.kernel = {2, 2}}).is_channels_last());
}

TEST(MaxPool2d, NanWinsAndMinusInfinityIsAValue) {
  const float nan = std::nanf(""), low = -std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from(std::vector<float>{1, nan, 3, 2, low, low, low, low}, {1, 2, 2, 2});
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const auto result = max_pool2d(x.contiguous(format), {.kernel = {2, 2}});
    EXPECT_TRUE(std::isnan(result.output.to_vector<float>()[0]));
    EXPECT_EQ(result.output.to_vector<float>()[1], low);
    EXPECT_EQ(result.indices.to_vector<int>(), (std::vector<int>{1, 0}));
  }
}

TEST(MaxPool2d, IndicesAreSmall) {
  const Tensor x = numbers({1, 1, 20, 20}, DType::float32);
  EXPECT_EQ(max_pool2d(x, {.kernel = {16, 16}}).indices.dtype(), DType::uint8);
  EXPECT_EQ(max_pool2d(x, {.kernel = {17, 17}}).indices.dtype(), DType::int32);
}

TEST(AdaptiveMaxPool2d, AgreesWithReference) {
  for (const DType dtype : kFloating)
    for (const Layout layout : kImageLayouts)
      for (const auto& [shape, size] :
           std::vector<std::pair<Shape, std::array<std::int64_t, 2>>>{{{2, 3, 7, 5}, {3, 2}},
                                                                      {{2, 40, 6, 6}, {1, 1}},
                                                                      {{1, 2, 3, 3}, {5, 4}},
                                                                      {{1, 2, 6, 6}, {3, 3}},
                                                                      {{2, 3, 1, 1}, {1, 1}},
                                                                      {{2, 3, 1, 1}, {2, 2}},
                                                                      {{2, 35, 1, 1}, {3, 1}},
                                                                      {{2, 3, 4, 1}, {2, 3}},
                                                                      {{2, 3, 1, 4}, {1, 2}},
                                                                      {{0, 2, 6, 6}, {3, 3}}}) {
        const Tensor x = laid_out(numbers(shape, dtype), layout);
        const Tensor dy = laid_out(numbers({shape[0], shape[1], size[0], size[1]}, dtype, 2), layout);
        const auto vx = x.to_vector<double>(), vdy = dy.to_vector<double>();
        std::vector<double> y, dx(vx.size());
        for (std::int64_t out = 0; out < dy.numel(); ++out) {
          const std::int64_t j = out % size[1], i = out / size[1] % size[0], plane = out / (size[1] * size[0]);
          std::int64_t best = -1;
          for (std::int64_t h = i * shape[2] / size[0]; h < ((i + 1) * shape[2] + size[0] - 1) / size[0]; ++h)
            for (std::int64_t w = j * shape[3] / size[1]; w < ((j + 1) * shape[3] + size[1] - 1) / size[1]; ++w) {
              const std::int64_t in = (plane * shape[2] + h) * shape[3] + w;
              if (best < 0 || vx[at(in)] > vx[at(best)]) best = in;
            }
          y.push_back(vx[at(best)]);
          dx[at(best)] += vdy[at(out)];
        }
        const auto result = adaptive_max_pool2d(x, size);
        expect_close(result.output, y, 0, "adaptive " + shape.str());
        expect_close(adaptive_max_pool2d_backward(dy, result.indices, shape), dx, 2, "adaptive dx " + shape.str());
      }
}

TEST(MaxPool2d, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({1, 2, 4, 4});
  TANDEM_EXPECT_ERROR(max_pool2d(x, {.kernel = {2, 2}, .padding = {2, 0}}),
                      "max_pool2d: padding 2 must be at most half the kernel, which is 2");
  TANDEM_EXPECT_ERROR(max_pool2d(x, {.kernel = {5, 5}}), "kernel 5 does not fit into x [1, 2, 4, 4]");
  TANDEM_EXPECT_ERROR(max_pool2d(x, {.kernel = {0, 1}}), "must be positive");
  TANDEM_EXPECT_ERROR(max_pool2d(Tensor::zeros({2, 4, 4}), {.kernel = {2, 2}}), "got [2, 4, 4]");
  const auto result = max_pool2d(x, {.kernel = {2, 2}});
  TANDEM_EXPECT_ERROR(max_pool2d_backward(x, result.indices, x.shape(), {.kernel = {2, 2}}), "must be [1, 2, 2, 2]");
  TANDEM_EXPECT_ERROR(max_pool2d(x.to(DType::int64), {.kernel = {2, 2}}), "int64");
}

}  // namespace
}  // namespace tandem::core
