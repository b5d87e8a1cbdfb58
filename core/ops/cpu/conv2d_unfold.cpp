#include "tandem/core/ops/cpu/conv2d_unfold.h"

#include <algorithm>
#include <vector>

#include "tandem/core/cpu/gemm.h"
#include "tandem/core/parallel.h"

namespace tandem::core::cpu {
namespace {

// Output pixels that are unfolded at a time.
constexpr std::int64_t kBlock = 96;

struct Geometry {
  std::int64_t n, c, h, w, o, kh, kw, oh, ow, groups;
  std::int64_t group_c, group_o;  // channels of one group
  std::int64_t patch;             // K
  Conv2dOptions options;

  Geometry(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& given)
      : n(x[0]),
        c(x[1]),
        h(x[2]),
        w(x[3]),
        o(y[1]),
        kh(weight[2]),
        kw(weight[3]),
        oh(y[2]),
        ow(y[3]),
        groups(given.groups),
        group_c(c / groups),
        group_o(o / groups),
        patch(kh * kw * group_c),
        options(given) {}

  std::int64_t pixels() const { return n * oh * ow; }
  template <class T>
  std::int64_t panels(std::int64_t columns) const {
    return (columns + kLanes<T> - 1) / kLanes<T>;
  }
};

// Calls run(patch offset, offset in x, length, inside) for each gap-free piece of the patch of output pixel (n, i, j).
template <class Run>
void for_each_piece(const Geometry& g, std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t group, Run&& run) {
  const auto& [stride, padding, dilation, groups, activation] = g.options;
  const std::int64_t left = j * stride[1] - padding[1];
  const bool whole_rows = g.groups == 1 && dilation[1] == 1 && left >= 0 && left + g.kw <= g.w;
  std::int64_t at = 0;
  for (std::int64_t p = 0; p < g.kh; ++p) {
    const std::int64_t row = i * stride[0] - padding[0] + p * dilation[0];
    const bool row_inside = row >= 0 && row < g.h;
    const std::int64_t row_offset = (n * g.h + row) * g.w;
    if (whole_rows || !row_inside) {
      const std::int64_t length = g.kw * g.group_c;
      run(at, (row_offset + left) * g.c, length, row_inside);
      at += length;
      continue;
    }
    for (std::int64_t q = 0; q < g.kw; ++q, at += g.group_c) {
      const std::int64_t column = left + q * dilation[1];
      run(at, (row_offset + column) * g.c + group * g.group_c, g.group_c, column >= 0 && column < g.w);
    }
  }
}

// Calls f(pixel, n, i, j) for output pixels in memory order.
template <class F>
void for_each_pixel(const Geometry& g, std::int64_t begin, std::int64_t end, F&& f) {
  std::int64_t j = begin % g.ow, i = begin / g.ow % g.oh, n = begin / (g.ow * g.oh);
  for (std::int64_t pixel = begin; pixel < end; ++pixel) {
    f(pixel, n, i, j);
    if (++j < g.ow) continue;
    j = 0;
    if (++i < g.oh) continue;
    i = 0;
    ++n;
  }
}

// patches [end - begin, K]
template <class T>
void unfold(const Geometry& g, const T* x, std::int64_t begin, std::int64_t end, std::int64_t group, T* patches) {
  for_each_pixel(g, begin, end, [&](std::int64_t, std::int64_t n, std::int64_t i, std::int64_t j) {
    for_each_piece(g, n, i, j, group, [&](std::int64_t at, std::int64_t from, std::int64_t length, bool inside) {
      if (inside) {
        for (std::int64_t k = 0; k < length; ++k) patches[at + k] = x[from + k];
      } else {
        for (std::int64_t k = 0; k < length; ++k) patches[at + k] = 0;
      }
    });
    patches += g.patch;
  });
}

// Weights (O, C / groups, KH, KW) of a group as a matrix [rows, columns] in panels [columns / lanes][rows][lanes],
// zeros at the end. Forward: rows are K, columns output channels; backward the other way round.
template <class T>
std::vector<T> pack_weights(const Geometry& g, const T* weight, bool forward) {
  const std::int64_t rows = forward ? g.patch : g.group_o, columns = forward ? g.group_o : g.patch;
  const std::int64_t panels = g.panels<T>(columns), size = panels * rows * kLanes<T>;
  std::vector<T> packed(static_cast<std::size_t>(g.groups * size), T{0});
  for (std::int64_t o = 0; o < g.o; ++o) {
    T* to = packed.data() + o / g.group_o * size;
    const std::int64_t out = o % g.group_o;
    for (std::int64_t c = 0; c < g.group_c; ++c)
      for (std::int64_t place = 0; place < g.kh * g.kw; ++place) {
        const std::int64_t k = place * g.group_c + c;
        const std::int64_t row = forward ? k : out, column = forward ? out : k;
        to[(column / kLanes<T> * rows + row) * kLanes<T> + column % kLanes<T>] = *weight++;
      }
  }
  return packed;
}

template <class T>
void forward(const Geometry& g, const T* x, const T* weight, const T* bias, T* y) {
  const std::vector<T> packed = pack_weights(g, weight, true);
  const std::int64_t panels = g.panels<T>(g.group_o);
  parallel_for((g.pixels() + kBlock - 1) / kBlock, 4, [&](std::int64_t first, std::int64_t last) {
    std::vector<T> patches(static_cast<std::size_t>(kBlock * g.patch));
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t begin = block * kBlock, end = std::min(g.pixels(), begin + kBlock);
      if (bias != nullptr)
        for (std::int64_t pixel = begin; pixel < end; ++pixel) std::copy_n(bias, g.o, y + pixel * g.o);
      for (std::int64_t group = 0; group < g.groups; ++group) {
        unfold(g, x, begin, end, group, patches.data());
        for (std::int64_t panel = 0; panel < panels; ++panel)
          tile_rows(end - begin, g.patch, patches.data(), g.patch, 1,
                    packed.data() + (group * panels + panel) * g.patch * kLanes<T>, kLanes<T>,
                    y + begin * g.o + group * g.group_o + panel * kLanes<T>, g.o,
                    std::min(kLanes<T>, g.group_o - panel * kLanes<T>), bias != nullptr);
      }
    }
  });
}

template <class T>
void backward_input(const Geometry& g, const T* dy, const T* weight, T* dx) {
  const std::vector<T> packed = pack_weights(g, weight, false);
  const std::int64_t panels = g.panels<T>(g.patch), image = g.oh * g.ow;
  parallel_for(g.n, 1, [&](std::int64_t first, std::int64_t last) {
    std::vector<T> patches(static_cast<std::size_t>(kBlock * g.patch));
    std::fill(dx + first * g.h * g.w * g.c, dx + last * g.h * g.w * g.c, T{0});
    for (std::int64_t begin = first * image; begin < last * image; begin += kBlock) {
      const std::int64_t end = std::min(last * image, begin + kBlock);
      for (std::int64_t group = 0; group < g.groups; ++group) {
        for (std::int64_t panel = 0; panel < panels; ++panel)
          tile_rows(end - begin, g.group_o, dy + begin * g.o + group * g.group_o, g.o, 1,
                    packed.data() + (group * panels + panel) * g.group_o * kLanes<T>, kLanes<T>,
                    patches.data() + panel * kLanes<T>, g.patch, std::min(kLanes<T>, g.patch - panel * kLanes<T>),
                    false);
        const T* patch = patches.data();
        for_each_pixel(g, begin, end, [&](std::int64_t, std::int64_t n, std::int64_t i, std::int64_t j) {
          for_each_piece(g, n, i, j, group, [&](std::int64_t at, std::int64_t to, std::int64_t length, bool inside) {
            if (!inside) return;
            for (std::int64_t k = 0; k < length; ++k) dx[to + k] += patch[at + k];
          });
          patch += g.patch;
        });
      }
    }
  });
}

// One chunk's sums [groups][panel][K][lanes].
template <class T>
void weight_sums(const Geometry& g, const T* dy, const T* x, std::int64_t first, std::int64_t last, T* sums) {
  const std::int64_t panels = g.panels<T>(g.group_o), size = g.patch * kLanes<T>;
  std::vector<T> patches(static_cast<std::size_t>(kBlock * g.patch)),
      tail(static_cast<std::size_t>(kBlock * kLanes<T>));
  std::fill_n(sums, g.groups * panels * size, T{0});
  for (std::int64_t begin = first; begin < last; begin += kBlock) {
    const std::int64_t end = std::min(last, begin + kBlock);
    for (std::int64_t group = 0; group < g.groups; ++group) {
      unfold(g, x, begin, end, group, patches.data());
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const T* from = dy + begin * g.o + group * g.group_o + panel * kLanes<T>;
        const std::int64_t columns = std::min(kLanes<T>, g.group_o - panel * kLanes<T>);
        std::int64_t step = g.o;
        if (columns < kLanes<T>) {  // a whole vector would reach beyond the row, at last beyond the memory
          for (std::int64_t pixel = 0; pixel < end - begin; ++pixel)
            std::copy_n(from + pixel * g.o, columns, tail.data() + pixel * kLanes<T>);
          from = tail.data();
          step = kLanes<T>;
        }
        tile_rows(g.patch, end - begin, patches.data(), 1, g.patch, from, step, sums + (group * panels + panel) * size,
                  kLanes<T>, kLanes<T>, true);
      }
    }
  }
}

template <class T>
void backward_weight(const Geometry& g, const T* dy, const T* x, T* dweight) {
  const std::int64_t panels = g.panels<T>(g.group_o), size = g.groups * panels * g.patch * kLanes<T>;
  // Chunks by shape alone; fewer where each needs much memory.
  const std::int64_t most = std::clamp<std::int64_t>((1 << 22) / std::max<std::int64_t>(1, size), 2, 64);
  const std::int64_t chunk = std::max(4 * kBlock, (g.pixels() + most - 1) / most);
  const std::int64_t chunks = (g.pixels() + chunk - 1) / chunk;
  std::vector<T> sums(static_cast<std::size_t>(chunks * size));
  parallel_chunks(g.pixels(), chunk, [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
    weight_sums(g, dy, x, begin, end, sums.data() + index * size);
  });
  for (std::int64_t i = 1; i < chunks; ++i)
    for (std::int64_t k = 0; k < size; ++k)
      sums[static_cast<std::size_t>(k)] += sums[static_cast<std::size_t>(i * size + k)];
  for (std::int64_t o = 0; o < g.o; ++o) {
    const std::int64_t out = o % g.group_o;
    const T* from = sums.data() + ((o / g.group_o * panels + out / kLanes<T>)*g.patch) * kLanes<T> + out % kLanes<T>;
    for (std::int64_t c = 0; c < g.group_c; ++c)
      for (std::int64_t place = 0; place < g.kh * g.kw; ++place) *dweight++ = from[(place * g.group_c + c) * kLanes<T>];
  }
}

template <class F>
void visit(DType dtype, F&& f) {
  dtype == DType::float64 ? f.template operator()<double>() : f.template operator()<float>();
}

}  // namespace

void unfold_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Tensor& y) {
  const Geometry geometry(x.shape(), weight.shape(), y.shape(), options);
  const Tensor dense = bias.defined() ? bias.contiguous() : bias;
  visit(x.dtype(), [&]<class T>() {
    forward<T>(geometry, x.data<T>(), weight.data<T>(), bias.defined() ? dense.data<T>() : nullptr,
               y.mutable_data<T>());
  });
}

void unfold_conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options, Tensor& dx) {
  const Geometry geometry(dx.shape(), weight.shape(), dy.shape(), options);
  visit(dy.dtype(),
        [&]<class T>() { backward_input<T>(geometry, dy.data<T>(), weight.data<T>(), dx.mutable_data<T>()); });
}

void unfold_conv2d_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dweight, const Conv2dOptions& options) {
  const Geometry geometry(x.shape(), dweight.shape(), dy.shape(), options);
  visit(dy.dtype(),
        [&]<class T>() { backward_weight<T>(geometry, dy.data<T>(), x.data<T>(), dweight.mutable_data<T>()); });
}

}  // namespace tandem::core::cpu
