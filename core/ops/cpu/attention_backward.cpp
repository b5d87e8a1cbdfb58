// Backward of attention. A task is one head of one sequence: blocks of places (columns of P), for each of them blocks
// of query rows, so that a block's dk and dv are complete before the next, and all that a product needs is in cache.
#include "tandem/core/ops/cpu/attention.h"
#include "tandem/core/ops/cpu/dropout.h"

namespace tandem::core::cpu {
namespace {

constexpr std::int64_t kQueryRows = 64, kPlaces = 128;

// From scores s (without mask) and dp = dy v^T of n places to probabilities after dropout, in s, and
// dS = P o (D o dp - delta), in dp. `keep` may be null: no dropout.
template <class C>
void probabilities_and_gradient(C* s, C* dp, const C* added, C log_sum_exp, C delta, const std::uint8_t* keep, C scale,
                                std::int64_t n) {
  if (keep == nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const C p = exp_nonpositive(s[i] + added[i] - log_sum_exp);
      s[i] = p;
      dp[i] = p * (dp[i] - delta);
    }
    return;
  }
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const C p = exp_nonpositive(s[i] + added[i] - log_sum_exp);
    s[i] = kept_or_zero(p * scale, keep[i]);
    dp[i] = p * (kept_or_zero(dp[i] * scale, keep[i]) - delta);
  }
}

template <class T>
class BackwardOfHeads {
  using C = compute_t<T>;

 public:
  BackwardOfHeads(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionForward& forward,
                  const AttentionOptions& options, AttentionGradients& result)
      : dy_(dy),
        q_(q),
        k_(k),
        v_(v),
        output_(forward.output),
        log_sum_exp_(forward.log_sum_exp.data<C>()),
        options_(options),
        rule_(options.dropout_p),
        batch_(q.shape()[0]),
        rows_(q.shape()[1]),
        places_(k.shape()[1]),
        d_(q.shape()[2] / options.heads),
        width_(whole_vectors<C>(d_)),
        mask_(options, batch_, places_),
        dq_(result.q.mutable_data<T>()),
        dk_(result.k.mutable_data<T>()),
        dv_(result.v.mutable_data<T>()) {}

  void run() {
    for_each_head(batch_, options_.heads, [&](auto&& for_each) {
      Room room(*this);
      for_each([&](std::int64_t n, std::int64_t h) { head(n, h, room); });
    });
  }

 private:
  static constexpr std::int64_t kStride = kPlaces + kLanes<C>;  // rows do not fall on the same places of the cache

  // Of one thread.
  struct Room {
    explicit Room(const BackwardOfHeads& a)
        : q(a.rows_ * a.width_),
          dy(a.rows_ * a.width_),
          dq(a.rows_ * a.width_),
          delta(a.rows_),
          k(kPlaces * a.width_),
          v(kPlaces * a.width_),
          dk(kPlaces * a.width_),
          dv(kPlaces * a.width_),
          k_panels(kPlaces * a.d_),
          v_panels(kPlaces * a.d_),
          scores(kQueryRows * kStride),
          dscores(kQueryRows * kStride),
          keep(kPlaces) {
      std::fill_n(static_cast<std::uint8_t*>(keep), kPlaces, std::uint8_t{0});
    }
    Scratch<C> q, dy, dq, delta, k, v, dk, dv, k_panels, v_panels, scores, dscores;
    Scratch<std::uint8_t> keep;
  };

  void head(std::int64_t n, std::int64_t h, Room& room) {
    const C scale = mask_.scale(n);
    copy_head<T, C>(head_of<T>(q_, n, h, d_), rows_, d_, scale, room.q);
    copy_head<T, C>(head_of<T>(dy_, n, h, d_), rows_, d_, 1, room.dy);
    const Head<const T> y = head_of<T>(output_, n, h, d_);
    for (std::int64_t r = 0; r < rows_; ++r) {
      C sum = 0;
      for (std::int64_t c = 0; c < d_; ++c) sum += room.dy[r * width_ + c] * static_cast<C>(y.data[r * y.stride + c]);
      room.delta[r] = sum;
    }
    const std::int64_t used = mask_.used(n);
    for (std::int64_t place = 0; place < used; place += kPlaces)
      block_of_places(n, h, place, std::min(kPlaces, used - place), room);
    write_head<T, C>(room.dq, rows_, d_, scale, nullptr, head_to_write(dq_, q_.shape(), n, h, d_));
    for (T* gradient : {dk_, dv_}) {
      const Head<T> rest = head_to_write(gradient, k_.shape(), n, h, d_);
      for (std::int64_t t = used; t < places_; ++t) std::fill_n(rest.data + t * rest.stride, d_, T{});
    }
  }

  void block_of_places(std::int64_t n, std::int64_t h, std::int64_t place, std::int64_t count, Room& room) {
    copy_head<T, C>(head_of<T>(k_, n, h, d_).from(place), count, d_, 1, room.k);
    copy_head<T, C>(head_of<T>(v_, n, h, d_).from(place), count, d_, 1, room.v);
    transpose_to_panels<C>(room.k, count, d_, room.k_panels);
    transpose_to_panels<C>(room.v, count, d_, room.v_panels);
    for (std::int64_t row = 0; row < rows_; row += kQueryRows) {
      const std::int64_t rows = std::min(kQueryRows, rows_ - row), at = row * width_;
      scores_and_gradient(n, h, place, count, row, rows, room);
      // scores is P after dropout, dscores dS. The products with P^T and dS^T read them by column.
      multiply_rows<C>(room.scores, 1, kStride, count, rows, room.dy + at, width_, room.dv, row > 0);
      multiply_rows<C>(room.dscores, 1, kStride, count, rows, room.q + at, width_, room.dk, row > 0);
      multiply_rows<C>(room.dscores, kStride, 1, rows, count, room.k, width_, room.dq + at, place > 0);
    }
    write_head<T, C>(room.dk, count, d_, 1, nullptr, head_to_write(dk_, k_.shape(), n, h, d_).from(place));
    write_head<T, C>(room.dv, count, d_, 1, nullptr, head_to_write(dv_, v_.shape(), n, h, d_).from(place));
  }

  void scores_and_gradient(std::int64_t n, std::int64_t h, std::int64_t place, std::int64_t count, std::int64_t row,
                           std::int64_t rows, Room& room) {
    const std::int64_t columns = whole_vectors<C>(count), at = row * width_;
    multiply_panels<C>(room.q + at, width_, rows, d_, room.k_panels, columns, room.scores, kStride);
    multiply_panels<C>(room.dy + at, width_, rows, d_, room.v_panels, columns, room.dscores, kStride);
    std::uint8_t* keep = options_.dropout_p > 0 ? static_cast<std::uint8_t*>(room.keep) : nullptr;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t of_all = (n * options_.heads + h) * rows_ + row + r;
      if (keep != nullptr)
        draw_kept(options_.stream, static_cast<std::uint64_t>(of_all * places_ + place), count, rule_.threshold, keep);
      probabilities_and_gradient(room.scores + r * kStride, room.dscores + r * kStride, mask_.added(n) + place,
                                 log_sum_exp_[of_all], room.delta[row + r], keep, static_cast<C>(rule_.scale), columns);
    }
  }

  const Tensor &dy_, &q_, &k_, &v_, &output_;
  const C* log_sum_exp_;
  const AttentionOptions& options_;
  DropoutRule rule_;
  std::int64_t batch_, rows_, places_, d_, width_;
  KeyMask<C> mask_;
  T *dq_, *dk_, *dv_;
};

}  // namespace

void attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionForward& forward, const AttentionOptions& options, AttentionGradients& result) {
  visit_floating("attention_backward", q.dtype(),
                 [&]<class T>() { BackwardOfHeads<T>(dy, q, k, v, forward, options, result).run(); });
}

}  // namespace tandem::core::cpu
