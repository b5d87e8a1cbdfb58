// Forward of attention; attention_backward.cpp has the rest. A task is one head of one sequence: blocks of query rows
// against all places, so that a row's softmax is complete when it meets v.
#include "tandem/core/ops/cpu/attention.h"

#include "tandem/core/ops/cpu/dropout.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// Scores of a block: half of a typical second-level cache, but never fewer rows than a tile has.
std::int64_t query_rows(std::int64_t places) { return std::clamp<std::int64_t>((1 << 17) / places, 8, 64); }

// scores [n] become e^(scale scores + added - max); returns max and the sum.
template <class C>
std::pair<C, C> exponentials(C* scores, C scale, const C* added, std::int64_t n) {
  C max = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : max)
  for (std::int64_t i = 0; i < n; ++i) {
    scores[i] = scale * scores[i] + added[i];
    max = scores[i] > max ? scores[i] : max;
  }
  double total = 0;
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    C* block = scores + begin;
    for (std::int64_t i = 0; i < count; ++i) block[i] = exp_nonpositive(block[i] - max);
    total += static_cast<double>(block_sum(block, count));
  });
  return {max, static_cast<C>(total)};
}

template <class T>
class ForwardOfHeads {
  using C = compute_t<T>;

 public:
  ForwardOfHeads(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                 AttentionForward& result)
      : q_(q),
        k_(k),
        v_(v),
        options_(options),
        rule_(options.dropout_p),
        batch_(q.shape()[0]),
        rows_(q.shape()[1]),
        places_(k.shape()[1]),
        d_(q.shape()[2] / options.heads),
        mask_(options, batch_, places_),
        output_(result.output.mutable_data<T>()),
        log_sum_exp_(result.log_sum_exp.mutable_data<C>()) {}

  void run() {
    for_each_head(batch_, options_.heads, [&](auto&& for_each) {
      Room room(*this);
      for_each([&](std::int64_t n, std::int64_t h) { head(n, h, room); });
    });
  }

 private:
  // Of one thread.
  struct Room {
    explicit Room(const ForwardOfHeads& a)
        : block(query_rows(a.places_)),
          stride(whole_vectors<C>(a.places_) + kLanes<C>),  // rows do not fall on the same places of the cache
          q(block * unit_width<T>(a.d_)),
          k(a.places_ * unit_width<T>(a.d_)),
          panels(whole_vectors<C>(a.places_) * units<T>(a.d_)),
          v(units<T>(a.places_) * whole_vectors<C>(a.d_)),
          scores(block * stride),
          y(block * whole_vectors<C>(a.d_)),
          factors(block),
          keep(whole_vectors<C>(a.places_)) {}
    std::int64_t block, stride;
    Scratch<Unit<T>> q, k, panels, v;
    Scratch<C> scores, y, factors;
    Scratch<std::uint8_t> keep;
  };

  void head(std::int64_t n, std::int64_t h, Room& room) {
    const std::int64_t used = mask_.used(n), width = whole_vectors<C>(d_), depth = units<T>(d_);
    copy_rows(head_of<T>(k_, n, h, d_), used, d_, room.k);
    transpose_to_panels<Unit<T>>(room.k, unit_width<T>(d_), used, depth, room.panels);
    stack_rows(head_of<T>(v_, n, h, d_), used, d_, room.v);
    for (std::int64_t row = 0; row < rows_; row += room.block) {
      const std::int64_t count = std::min(room.block, rows_ - row);
      copy_rows(head_of<T>(q_, n, h, d_).from(row), count, d_, room.q);
      multiply_panels<Unit<T>, C>(room.q, unit_width<T>(d_), count, depth, room.panels, whole_vectors<C>(used),
                                  room.scores, room.stride);
      for (std::int64_t r = 0; r < count; ++r) softmax_row(n, h, row + r, room.scores + r * room.stride, room, r);
      const Unit<T>* p = results_as_rows<T>(room.scores, room.stride, count, whole_vectors<C>(used));
      multiply_rows<Unit<T>, C>(p, room.stride, 1, count, units<T>(used), room.v, width, room.y, false);
      write_head<T, C>(room.y, count, d_, 1, room.factors, head_to_write(output_, q_.shape(), n, h, d_).from(row));
    }
  }

  // Row r of the block: probabilities without their common factor, which is left to the result.
  void softmax_row(std::int64_t n, std::int64_t h, std::int64_t row, C* scores, Room& room, std::int64_t r) {
    const std::int64_t used = mask_.used(n), at = (n * options_.heads + h) * rows_ + row;
    const auto [max, sum] = exponentials(scores, mask_.scale(n), mask_.added(n), whole_vectors<C>(used));
    log_sum_exp_[at] = max + std::log(sum);
    room.factors[r] = 1 / sum;
    if (options_.dropout_p == 0) return;
    std::uint8_t* keep = room.keep;
    draw_kept(options_.stream, static_cast<std::uint64_t>(at * places_), used, rule_.threshold, keep);
    room.factors[r] *= static_cast<C>(rule_.scale);
#pragma omp simd
    for (std::int64_t i = 0; i < used; ++i) scores[i] = kept_or_zero(scores[i], keep[i]);
  }

  const Tensor &q_, &k_, &v_;
  const AttentionOptions& options_;
  DropoutRule rule_;
  std::int64_t batch_, rows_, places_, d_;
  KeyMask<C> mask_;
  T* output_;
  C* log_sum_exp_;
};

}  // namespace

template <>
void attention<DeviceType::cpu>(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                AttentionForward& result) {
  visit_floating("attention", q.dtype(), [&]<class T>() { ForwardOfHeads<T>(q, k, v, options, result).run(); });
}

}  // namespace tandem::core::kernels
