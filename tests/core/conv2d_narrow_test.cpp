// Every small combination of width, kernel, stride and padding, on recycled memory full of NaN: libraries have left
// parts of such gradients unwritten (outputs one column wide with a stride, taps of the kernel that see only padding).
#include "tests/core/conv2d_reference.h"

namespace tandem::core {
namespace {

using namespace testing;

// Leaves two recycled blocks of NaN in each size class up to 64 KiB.
void poison_recycled_memory() {
  for (std::int64_t bytes = 64; bytes <= 1 << 16; bytes += std::max<std::int64_t>(64, bytes / 8)) {
    const Tensor first = poison({bytes / 4}, DType::float32), second = poison({bytes / 4}, DType::float32);
  }
}

void check(const Conv2dCase& c) {
  const Shape ys = conv2d_shape(c.x, c.weight, c.options);
  const Tensor x = numbers(c.x, DType::float64), w = numbers(c.weight, DType::float64, 2);
  const Tensor bias = numbers({ys[1]}, DType::float64, 3), dy = numbers(ys, DType::float64, 4);
  const Conv2dReference wanted(c, x, w, bias, dy);
  const double scale = 2 * std::sqrt(static_cast<double>(numel(ys) + numel(c.weight)));
  for (const auto& [dtype, parameter] : kPrecisions) {
    const std::string what = fmt::format("{} x {} w {} stride {} padding {} {}", name(dtype), c.x.str(), c.weight.str(),
                                         c.options.stride[1], c.options.padding[0], c.options.padding[1]);
    const Tensor w_given = w.to(parameter), x_given = x.to(dtype), dy_given = dy.to(dtype);
    Tensor dw = Tensor::empty(c.weight, {.dtype = parameter});
    poison_recycled_memory();
    expect_close(conv2d(x_given, w_given, bias.to(parameter), c.options), wanted.y, scale, "y " + what);
    expect_close(conv2d_backward_input(dy_given, w_given, c.x, c.options), wanted.dx, scale, "dx " + what);
    poison_recycled_memory();
    conv2d_backward_weight(dy_given, x_given, dw, false, c.options);
    expect_close(dw, wanted.dweight, scale, "dw " + what);
  }
}

TEST(Conv2dNarrow, EveryCombinationAgreesWithReference) {
  for (const auto& [channels, height] : {std::pair{1, 4}, {3, 1}, {16, 4}})
    for (const std::int64_t width : {1, 2, 5})
      for (const std::int64_t kernel : {1, 2, 3})
        for (const std::int64_t stride : {1, 2, 3})
          for (const std::int64_t padding : {0, 1, 2}) {
            const std::int64_t kernel_height = height == 1 ? 1 : 3;
            if (kernel > width + 2 * padding) continue;
            check({{2, channels, height, width},
                   {channels, channels, kernel_height, kernel},
                   {.stride = {1, stride}, .padding = {0, padding}}});
          }
}

TEST(Conv2dNarrow, SquareKernelsOnFewPixelsAgreeWithReference) {
  for (const std::int64_t channels : {3, 16})
    for (const std::int64_t size : {1, 2, 3})
      for (const std::int64_t kernel : {3, 5})
        for (const std::int64_t stride : {1, 2, 3})
          for (const std::int64_t dilation : {1, 2}) {
            const std::int64_t padding = dilation * (kernel / 2);
            check({{2, channels, size, size},
                   {channels, channels, kernel, kernel},
                   {.stride = {stride, stride}, .padding = {padding, padding}, .dilation = {dilation, dilation}}});
          }
}

}  // namespace
}  // namespace tandem::core
