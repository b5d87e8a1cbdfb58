// Sums; max and min are in reduce_extreme.cpp. The kernels come in two forms, by what lies innermost in memory:
//   a reduced dimension (sums of rows): a task adds up a piece of one output's elements;
//   a kept dimension (sums of columns, such as a bias gradient): a task adds rows into a strip of neighbouring outputs.
// How work is cut into tasks depends on shape and strides alone, and the tasks' results are added in order, so the
// number of threads changes no bit. Within a task no chain of float additions is long: blocks are added in float
// (Lane), their sums in double (Total).
#include "tandem/core/ops/reduce.h"

#include <memory>
#include <type_traits>

#include "tandem/core/cpu/block_sums.h"
#include "tandem/core/cpu/strided.h"
#include "tandem/core/ops/broadcast.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

constexpr std::int64_t kTaskElements = 1 << 16;  // a longer sum is cut into tasks of about this size
constexpr std::int64_t kStrip = 2048;            // outputs that a task of the second form adds to at once
constexpr std::int64_t kRowBlock = 64;           // rows that it adds before going to double

template <class T>
using total_t =
    std::conditional_t<std::is_same_v<compute_t<T>, float> || std::is_same_v<T, double>, double, std::int64_t>;
template <class T>
using lane_t = std::conditional_t<std::is_same_v<compute_t<T>, float>, float, total_t<T>>;

// A few dimensions of a plan, walked by a flat index, innermost first.
struct Axes {
  int rank = 0;
  std::int64_t count = 1;
  std::int64_t sizes[kMaxRank], x_strides[kMaxRank], out_strides[kMaxRank];

  void add(const StridedPlan<2>& plan, int i) {
    sizes[rank] = plan.sizes[i];
    x_strides[rank] = plan.strides[i][0];
    out_strides[rank++] = plan.strides[i][1];
    count *= plan.sizes[i];
  }
  std::int64_t offset(std::int64_t index, const std::int64_t* strides) const {
    std::int64_t sum = 0;
    for (int i = 0; i + 1 < rank; ++i) {
      sum += index % sizes[i] * strides[i];
      index /= sizes[i];
    }
    return rank > 0 ? sum + index * strides[rank - 1] : 0;
  }
  std::int64_t x(std::int64_t index) const { return offset(index, x_strides); }
  std::int64_t out(std::int64_t index) const { return offset(index, out_strides); }
};

// The dimensions of a sum by what becomes of them. `inner` is the innermost one, in neither list.
struct Plan {
  Axes kept, reduced;
  std::int64_t inner = 1, inner_stride = 1;
  bool inner_is_reduced = false;
};

Plan plan_sum(const Shape& shape, const Strides& x_strides, const Strides& out_strides) {
  const auto strided = make_plan<2>(shape, {&x_strides, &out_strides});
  Plan plan;
  plan.inner = strided.sizes[0];
  plan.inner_stride = strided.strides[0][0];
  plan.inner_is_reduced = strided.strides[0][1] == 0;
  // A kept innermost dimension is written as a strip, for which its outputs must be neighbours.
  const bool strip = !plan.inner_is_reduced && plan.inner_stride == 1 && strided.strides[0][1] == 1;
  if (!plan.inner_is_reduced && !strip) {
    plan.inner = plan.inner_stride = 1;
    plan.inner_is_reduced = true;
    plan.kept.add(strided, 0);
  }
  for (int i = 1; i < strided.rank; ++i) (strided.strides[i][1] == 0 ? plan.reduced : plan.kept).add(strided, i);
  return plan;
}

// First form. finish(kept index, total) takes each result, in parallel.
template <class T, class Lane, class Total, class Finish>
void sum_rows(const Plan& plan, const T* x, Finish finish) {
  const std::int64_t blocks = (plan.inner + kSumBlock - 1) / kSumBlock;  // per run
  const std::int64_t pieces = plan.reduced.count * blocks;               // per output
  const std::int64_t per_task =
      std::max<std::int64_t>(1, kTaskElements / std::clamp<std::int64_t>(plan.inner, 1, kSumBlock));
  const auto add_pieces = [&](std::int64_t kept, std::int64_t first, std::int64_t last) {
    const T* start = x + plan.kept.x(kept);
    Total total = 0;
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t begin = piece % blocks * kSumBlock, n = std::min(kSumBlock, plan.inner - begin);
      total += sum_block<Lane>(start + plan.reduced.x(piece / blocks) + begin * plan.inner_stride, plan.inner_stride, n,
                               [](Lane v) { return v; });
    }
    return total;
  };
  if (pieces <= per_task) {
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, pieces * plan.inner));
    parallel_for(plan.kept.count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t kept = begin; kept < end; ++kept) finish(kept, add_pieces(kept, 0, pieces));
    });
    return;
  }
  const std::int64_t tasks = (pieces + per_task - 1) / per_task;  // per output
  const auto partial = std::make_unique<Total[]>(static_cast<std::size_t>(plan.kept.count * tasks));
  parallel_for(plan.kept.count * tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % tasks * per_task;
      partial[static_cast<std::size_t>(i)] = add_pieces(i / tasks, first, std::min(pieces, first + per_task));
    }
  });
  for (std::int64_t kept = 0; kept < plan.kept.count; ++kept) {
    Total total = 0;
    for (std::int64_t i = 0; i < tasks; ++i) total += partial[static_cast<std::size_t>(kept * tasks + i)];
    finish(kept, total);
  }
}

// totals[j] += sum over rows [first, last) of x[row, j], j < width <= kStrip.
template <class T, class Lane, class Total>
void add_strip(const Axes& rows, const T* x, std::int64_t first, std::int64_t last, std::int64_t width, Total* totals) {
  using C = compute_t<T>;
  const auto value = [](T element) { return static_cast<Lane>(static_cast<C>(element)); };
  Lane sums[kStrip];
  for (std::int64_t block = first; block < last; block += kRowBlock) {
    const std::int64_t end = std::min(last, block + kRowBlock);
    std::fill_n(sums, width, Lane{0});
    std::int64_t row = block;
    for (; row + 4 <= end; row += 4) {  // four at a time, to load and store `sums` less often
      const T *x0 = x + rows.x(row), *x1 = x + rows.x(row + 1), *x2 = x + rows.x(row + 2), *x3 = x + rows.x(row + 3);
      for (std::int64_t j = 0; j < width; ++j) sums[j] += (value(x0[j]) + value(x1[j])) + (value(x2[j]) + value(x3[j]));
    }
    for (; row < end; ++row) {
      const T* x0 = x + rows.x(row);
      for (std::int64_t j = 0; j < width; ++j) sums[j] += value(x0[j]);
    }
    for (std::int64_t j = 0; j < width; ++j) totals[j] += static_cast<Total>(sums[j]);
  }
}

// Second form. finish(kept index, first output of the strip, width, totals) takes each result.
template <class T, class Lane, class Total, class Finish>
void sum_columns(const Plan& plan, const T* x, Finish finish) {
  const std::int64_t strips = (plan.inner + kStrip - 1) / kStrip, rows = plan.reduced.count;
  const std::int64_t per_task = std::max(kRowBlock, kTaskElements / std::min(plan.inner, kStrip));
  const std::int64_t tasks = std::max<std::int64_t>(1, (rows + per_task - 1) / per_task);  // per strip
  const auto width_of = [&](std::int64_t strip) { return std::min(kStrip, plan.inner - strip * kStrip); };
  const auto add_task = [&](std::int64_t kept, std::int64_t strip, std::int64_t task, Total* totals) {
    const T* start = x + plan.kept.x(kept) + strip * kStrip;
    add_strip<T, Lane, Total>(plan.reduced, start, task * per_task, std::min(rows, (task + 1) * per_task),
                              width_of(strip), totals);
  };
  const std::int64_t all_strips = plan.kept.count * strips;
  if (tasks == 1) {
    const std::int64_t grain =
        std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, rows * std::min(plan.inner, kStrip)));
    parallel_for(all_strips, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Total totals[kStrip];
        std::fill_n(totals, width_of(i % strips), Total{0});
        add_task(i / strips, i % strips, 0, totals);
        finish(i / strips, i % strips * kStrip, width_of(i % strips), totals);
      }
    });
    return;
  }
  const std::int64_t width = std::min(plan.inner, kStrip);
  const auto partial = std::make_unique<Total[]>(static_cast<std::size_t>(all_strips * tasks * width));  // zeros
  parallel_for(all_strips * tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      add_task(i / tasks / strips, i / tasks % strips, i % tasks, partial.get() + i * width);
  });
  parallel_for(all_strips, std::max<std::int64_t>(1, kGrain / (tasks * width)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   Total* totals = partial.get() + i * tasks * width;
                   for (std::int64_t task = 1; task < tasks; ++task)
                     for (std::int64_t j = 0; j < width; ++j) totals[j] += totals[task * width + j];
                   finish(i / strips, i % strips * kStrip, width_of(i % strips), totals);
                 }
               });
}

template <class Out, class Total>
Out finished(Total total, double divisor) {
  if constexpr (std::is_same_v<Total, double>) {
    return static_cast<Out>(static_cast<compute_t<Out>>(total / divisor));
  } else {
    return static_cast<Out>(total);
  }
}

template <class T>
void sum_of(const Tensor& x, double divisor, Tensor& out) {
  using Total = total_t<T>;
  using Out = std::conditional_t<std::is_same_v<Total, double>, T, std::int64_t>;
  const T* from = x.data<T>();
  Out* to = out.mutable_data<Out>();
  if (x.numel() == 0) {
    std::fill_n(to, out.numel(), finished<Out>(Total{0}, divisor));
    return;
  }
  const Plan plan = plan_sum(x.shape(), x.strides(), broadcast_strides(out, x.shape()));
  if (plan.inner_is_reduced) {
    sum_rows<T, lane_t<T>, Total>(
        plan, from, [&](std::int64_t kept, Total total) { to[plan.kept.out(kept)] = finished<Out>(total, divisor); });
  } else {
    sum_columns<T, lane_t<T>, Total>(
        plan, from, [&](std::int64_t kept, std::int64_t first, std::int64_t width, const Total* totals) {
          Out* strip = to + plan.kept.out(kept) + first;
          for (std::int64_t j = 0; j < width; ++j) strip[j] = finished<Out>(totals[j], divisor);
        });
  }
}

}  // namespace

template <>
void sum<DeviceType::cpu>(const Tensor& x, double divisor, Tensor& out) {
  switch (x.dtype()) {
    case DType::float32: return sum_of<float>(x, divisor, out);
    case DType::float64: return sum_of<double>(x, divisor, out);
    case DType::bfloat16: return sum_of<bfloat16>(x, divisor, out);
    case DType::int64: return sum_of<std::int64_t>(x, divisor, out);
    case DType::int32: return sum_of<std::int32_t>(x, divisor, out);
    case DType::uint8: return sum_of<std::uint8_t>(x, divisor, out);
    case DType::boolean: return sum_of<bool>(x, divisor, out);
    case DType::float16: fail("sum: no arithmetic on float16 here");
  }
}

}  // namespace tandem::core::kernels
