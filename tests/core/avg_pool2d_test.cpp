#include "tandem/core/ops/avg_pool2d.h"

#include "tests/core/awkward.h"

namespace tandem::core {
namespace {

using namespace testing;

struct Span {
  std::int64_t begin, end;
};

// Means of rectangles and their gradient; rows and columns give what each output place sees, divisor(i, j) the number
// it counts.
template <class Divisor>
void check(const Shape& shape, const std::vector<Span>& rows, const std::vector<Span>& columns, const Divisor& divisor,
           const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx, const std::string& what) {
  const std::int64_t oh = std::ssize(rows), ow = std::ssize(columns);
  ASSERT_EQ(y.shape(), (Shape{shape[0], shape[1], oh, ow})) << what;
  const auto vx = x.to_vector<double>(), vdy = dy.to_vector<double>();
  std::vector<double> wanted(at(y.numel())), wanted_dx(vx.size());
  for (std::int64_t out = 0; out < y.numel(); ++out) {
    const std::int64_t j = out % ow, i = out / ow % oh, plane = out / (ow * oh);
    for (std::int64_t h = rows[at(i)].begin; h < rows[at(i)].end; ++h)
      for (std::int64_t w = columns[at(j)].begin; w < columns[at(j)].end; ++w) {
        if (h < 0 || h >= shape[2] || w < 0 || w >= shape[3]) continue;
        const std::size_t in = at((plane * shape[2] + h) * shape[3] + w);
        wanted[at(out)] += vx[in] / divisor(i, j);
        wanted_dx[in] += vdy[at(out)] / divisor(i, j);
      }
  }
  expect_close(y, wanted, 1, "y " + what);
  expect_close(dx, wanted_dx, 1, "dx " + what);
}

struct Case {
  Shape x;
  Pool2dOptions options;
  std::array<std::int64_t, 2> output;
};
const std::vector<Case> kCases{
    {{2, 3, 6, 8}, {.kernel = {2, 2}}, {3, 4}},
    {{2, 64, 7, 9}, {.kernel = {2, 3}}, {3, 3}},
    {{1, 35, 7, 9}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, {4, 5}},
    {{2, 4, 7, 40}, {.kernel = {3, 33}, .stride = {1, 3}}, {5, 3}},
    {{2, 4, 7, 7}, {.kernel = {2, 2}, .stride = {3, 3}}, {2, 2}},
    {{2, 4, 7, 7}, {.kernel = {2, 2}, .ceil_mode = true}, {4, 4}},
    {{1, 2, 5, 5}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}, {3, 3}},
    {{1, 1, 1, 1}, {.kernel = {1, 1}}, {1, 1}},
    // One place high, or wide, or both: in several memory orders at once.
    {{2, 3, 1, 1}, {.kernel = {1, 1}}, {1, 1}},
    {{2, 3, 1, 1}, {.kernel = {2, 2}, .stride = {1, 1}, .padding = {1, 1}}, {2, 2}},
    {{2, 35, 1, 1}, {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}}, {1, 1}},
    {{2, 3, 5, 1}, {.kernel = {2, 1}, .stride = {1, 1}}, {4, 1}},
    {{2, 3, 1, 4}, {.kernel = {2, 3}, .stride = {1, 1}, .padding = {1, 1}}, {2, 4}},
    {{2, 5, 2, 2}, {.kernel = {2, 2}}, {1, 1}},
    {{0, 3, 4, 4}, {.kernel = {2, 2}}, {2, 2}},
};

TEST(AvgPool2d, ForwardAndGradientAgreeWithReference) {
  for (const DType dtype : kFloating)
    for (const Case& c : kCases)
      for (const Layout layout : kImageLayouts)
        for (const bool include : {true, false}) {
          const auto spans = [&](std::size_t d) {
            std::vector<Span> result;
            const std::int64_t step = c.options.stride[d] == 0 ? c.options.kernel[d] : c.options.stride[d];
            for (std::int64_t i = 0; i < c.output[d]; ++i)
              result.push_back(
                  {i * step - c.options.padding[d], i * step - c.options.padding[d] + c.options.kernel[d]});
            return result;
          };
          const auto rows = spans(0), columns = spans(1);
          const auto length = [&](const Span& s,
                                  std::size_t d) {  // PyTorch's: padding counts, what hangs over it does not
            const std::int64_t size = c.x[2 + static_cast<int>(d)], padding = include ? c.options.padding[d] : 0;
            return static_cast<double>(std::min(s.end, size + padding) - std::max(s.begin, -padding));
          };
          const Tensor x = laid_out(numbers(c.x, dtype), layout);
          const Tensor dy = laid_out(numbers({c.x[0], c.x[1], c.output[0], c.output[1]}, dtype, 2), layout);
          check(
              c.x, rows, columns,
              [&](std::int64_t i, std::int64_t j) { return length(rows[at(i)], 0) * length(columns[at(j)], 1); }, x,
              avg_pool2d(x, c.options, include), dy, avg_pool2d_backward(dy, c.x, c.options, include),
              fmt::format("{} {} layout {} {}", name(dtype), c.x.str(), static_cast<int>(layout), include));
        }
}

TEST(AdaptiveAvgPool2d, AgreesWithReference) {
  for (const DType dtype : kFloating)
    for (const Layout layout : kImageLayouts)
      for (const auto& [shape, size] :
           std::vector<std::pair<Shape, std::array<std::int64_t, 2>>>{{{2, 3, 7, 5}, {3, 2}},
                                                                      {{2, 40, 7, 7}, {1, 1}},
                                                                      {{1, 2, 3, 3}, {5, 4}},
                                                                      {{1, 2, 6, 6}, {3, 3}},
                                                                      {{2, 3, 1, 1}, {1, 1}},
                                                                      {{2, 3, 1, 1}, {2, 2}},
                                                                      {{2, 35, 1, 1}, {3, 1}},
                                                                      {{2, 3, 4, 1}, {2, 3}},
                                                                      {{2, 3, 1, 4}, {1, 2}},
                                                                      {{0, 2, 6, 6}, {3, 3}}}) {
        const auto spans = [](std::int64_t n, std::int64_t count) {
          std::vector<Span> result;
          for (std::int64_t i = 0; i < count; ++i) result.push_back({i * n / count, ((i + 1) * n + count - 1) / count});
          return result;
        };
        const auto rows = spans(shape[2], size[0]), columns = spans(shape[3], size[1]);
        const Tensor x = laid_out(numbers(shape, dtype), layout);
        const Tensor dy = laid_out(numbers({shape[0], shape[1], size[0], size[1]}, dtype, 2), layout);
        check(
            shape, rows, columns,
            [&](std::int64_t i, std::int64_t j) {
              return static_cast<double>((rows[at(i)].end - rows[at(i)].begin) *
                                         (columns[at(j)].end - columns[at(j)].begin));
            },
            x, adaptive_avg_pool2d(x, size), dy, adaptive_avg_pool2d_backward(dy, shape),
            fmt::format("{} {}", name(dtype), shape.str()));
      }
}

TEST(AvgPool2d, KeepsTheMemoryOrder) {
  const Tensor x = numbers({2, 3, 4, 4}, DType::float32), last = x.contiguous(MemoryFormat::channels_last);
  EXPECT_TRUE(avg_pool2d(x, {.kernel = {2, 2}}).is_contiguous());
  EXPECT_TRUE(avg_pool2d(last, {.kernel = {2, 2}}).is_channels_last());
  EXPECT_TRUE(avg_pool2d_backward(last.slice(2, 0, 2).slice(3, 0, 2).contiguous(MemoryFormat::channels_last), x.shape(),
                                  {.kernel = {2, 2}})
                  .is_channels_last());
}

TEST(AvgPool2d, ErrorsNameTheRule) {
  const Tensor x = Tensor::zeros({1, 2, 4, 4});
  TANDEM_EXPECT_ERROR(avg_pool2d(x, {.kernel = {2, 2}, .padding = {2, 0}}),
                      "avg_pool2d: padding 2 must be at most half the kernel");
  TANDEM_EXPECT_ERROR(avg_pool2d_backward(x, x.shape(), {.kernel = {2, 2}}), "dy [1, 2, 4, 4] must be [1, 2, 2, 2]");
  TANDEM_EXPECT_ERROR(adaptive_avg_pool2d(x, {0, 1}), "output [0, 1]");
  TANDEM_EXPECT_ERROR(adaptive_avg_pool2d(Tensor::zeros({2, 4, 4}), {1, 1}), "got [2, 4, 4]");
}

}  // namespace
}  // namespace tandem::core
