// Backward of attention. A task is one head of one sequence: blocks of places (columns of P), for each of them blocks
// of query rows, so that a block's dk and dv are complete before the next, and all that a product needs is in cache.
#include "tandem/core/ops/cpu/attention.h"
#include "tandem/core/ops/cpu/dropout.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

constexpr std::int64_t kQueryRows = 64, kPlaces = 128;

// From s = q k^T and dp = dy v^T of n places to probabilities after dropout, in s, and dS = P o (D o dp - delta), in
// dp. `keep` may be null: no dropout, else `kept` is what the kept are multiplied by.
template <class C>
void probabilities_and_gradient(C* s, C* dp, C scale, const C* added, C log_sum_exp, C delta, const std::uint8_t* keep,
                                C kept, std::int64_t n) {
  if (keep == nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const C p = exp_nonpositive(scale * s[i] + added[i] - log_sum_exp);
      s[i] = p;
      dp[i] = p * (dp[i] - delta);
    }
    return;
  }
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const C p = exp_nonpositive(scale * s[i] + added[i] - log_sum_exp);
    s[i] = kept_or_zero(p * kept, keep[i]);
    dp[i] = p * (kept_or_zero(dp[i] * kept, keep[i]) - delta);
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
        depth_width_(unit_width<T>(d_)),
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
  static constexpr bool kStacks = kPerUnit<T> != 1;  // products over rows take other factors than those over columns
  static constexpr std::int64_t kStride = kPlaces + kLanes<C>;  // rows do not fall on the same places of the cache

  // Of one thread. Queries are factors over columns, for scores, and over rows, for gradients: see Unit.
  struct Room {
    explicit Room(const BackwardOfHeads& a)
        : q(a.rows_ * a.depth_width_),
          dy(a.rows_ * a.depth_width_),
          stacked_q(kStacks ? units<T>(a.rows_) * a.width_ : 0),
          stacked_dy(kStacks ? units<T>(a.rows_) * a.width_ : 0),
          rows_of_places(kPlaces * a.depth_width_),
          k_panels(kPlaces * units<T>(a.d_)),
          v_panels(kPlaces * units<T>(a.d_)),
          stacked_k(kStacks ? units<T>(kPlaces) * a.width_ : 0),
          scores(kQueryRows * kStride),
          dscores(kQueryRows * kStride),
          dscore_rows(kStacks ? kQueryRows * kStride : 0),
          delta(a.rows_),
          dq(a.rows_ * a.width_),
          dk(kPlaces * a.width_),
          dv(kPlaces * a.width_),
          keep(kPlaces) {
      std::fill_n(static_cast<std::uint8_t*>(keep), kPlaces, std::uint8_t{0});
    }
    Scratch<Unit<T>> q, dy, stacked_q, stacked_dy, rows_of_places, k_panels, v_panels, stacked_k;
    Scratch<C> scores, dscores, dscore_rows, delta, dq, dk, dv;
    Scratch<std::uint8_t> keep;
  };

  void head(std::int64_t n, std::int64_t h, Room& room) {
    const Head<const T> q = head_of<T>(q_, n, h, d_), dy = head_of<T>(dy_, n, h, d_), y = head_of<T>(output_, n, h, d_);
    copy_rows(q, rows_, d_, room.q);
    copy_rows(dy, rows_, d_, room.dy);
    const Unit<T>* stacked_q = stacked<T>(q, rows_, d_, room.q, room.stacked_q);
    const Unit<T>* stacked_dy = stacked<T>(dy, rows_, d_, room.dy, room.stacked_dy);
    for (std::int64_t r = 0; r < rows_; ++r) {
      const T *a = dy.data + r * dy.stride, *b = y.data + r * y.stride;
      C sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < d_; ++c) sum += static_cast<C>(a[c]) * static_cast<C>(b[c]);
      room.delta[r] = sum;
    }
    const std::int64_t used = mask_.used(n);
    for (std::int64_t place = 0; place < used; place += kPlaces)
      block_of_places(n, h, place, std::min(kPlaces, used - place), stacked_q, stacked_dy, room);
    write_head<T, C>(room.dq, rows_, d_, mask_.scale(n), nullptr, head_to_write(dq_, q_.shape(), n, h, d_));
    for (T* gradient : {dk_, dv_}) {
      const Head<T> rest = head_to_write(gradient, k_.shape(), n, h, d_);
      for (std::int64_t t = used; t < places_; ++t) std::fill_n(rest.data + t * rest.stride, d_, T{});
    }
  }

  void block_of_places(std::int64_t n, std::int64_t h, std::int64_t place, std::int64_t count, const Unit<T>* stacked_q,
                       const Unit<T>* stacked_dy, Room& room) {
    const Head<const T> k = head_of<T>(k_, n, h, d_).from(place), v = head_of<T>(v_, n, h, d_).from(place);
    copy_rows(v, count, d_, room.rows_of_places);
    transpose_to_panels<Unit<T>>(room.rows_of_places, depth_width_, count, units<T>(d_), room.v_panels);
    copy_rows(k, count, d_, room.rows_of_places);
    transpose_to_panels<Unit<T>>(room.rows_of_places, depth_width_, count, units<T>(d_), room.k_panels);
    const Unit<T>* stacked_k = stacked<T>(k, count, d_, room.rows_of_places, room.stacked_k);
    for (std::int64_t row = 0; row < rows_; row += kQueryRows) {
      const std::int64_t rows = std::min(kQueryRows, rows_ - row), columns = whole_vectors<C>(count);
      scores_and_gradient(n, h, place, count, row, rows, room);
      // P^T and dS^T are read by column.
      const std::int64_t at = row / kPerUnit<T> * width_, depth = units<T>(rows);
      const Unit<T>* p = results_stacked<T>(room.scores, kStride, rows, columns);
      multiply_rows<Unit<T>, C>(p, 1, kStride, count, depth, stacked_dy + at, width_, room.dv, row > 0);
      const Unit<T>* ds = dscores_as_rows(rows, columns, room);
      multiply_rows<Unit<T>, C>(ds, kStride, 1, rows, units<T>(count), stacked_k, width_, room.dq + row * width_,
                                place > 0);
      ds = results_stacked<T>(room.dscores, kStride, rows, columns);
      multiply_rows<Unit<T>, C>(ds, 1, kStride, count, depth, stacked_q + at, width_, room.dk, row > 0);
    }
    write_head<T, C>(room.dk, count, d_, mask_.scale(n), nullptr, head_to_write(dk_, k_.shape(), n, h, d_).from(place));
    write_head<T, C>(room.dv, count, d_, 1, nullptr, head_to_write(dv_, v_.shape(), n, h, d_).from(place));
  }

  // scores becomes P after dropout, dscores dS.
  void scores_and_gradient(std::int64_t n, std::int64_t h, std::int64_t place, std::int64_t count, std::int64_t row,
                           std::int64_t rows, Room& room) {
    const std::int64_t columns = whole_vectors<C>(count), at = row * depth_width_, depth = units<T>(d_);
    multiply_panels<Unit<T>, C>(room.q + at, depth_width_, rows, depth, room.k_panels, columns, room.scores, kStride);
    multiply_panels<Unit<T>, C>(room.dy + at, depth_width_, rows, depth, room.v_panels, columns, room.dscores, kStride);
    std::uint8_t* keep = options_.dropout_p > 0 ? static_cast<std::uint8_t*>(room.keep) : nullptr;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t of_all = (n * options_.heads + h) * rows_ + row + r;
      if (keep != nullptr)
        draw_kept(options_.stream, static_cast<std::uint64_t>(of_all * places_ + place), count, rule_.threshold, keep);
      probabilities_and_gradient(room.scores + r * kStride, room.dscores + r * kStride, mask_.scale(n),
                                 mask_.added(n) + place, log_sum_exp_[of_all], room.delta[row + r], keep,
                                 static_cast<C>(rule_.scale), columns);
    }
  }

  // dS for the product over its columns, beside dscores, which is needed once more.
  const Unit<T>* dscores_as_rows(std::int64_t rows, std::int64_t columns, Room& room) const {
    if constexpr (!kStacks) return room.dscores;
    for (std::int64_t r = 0; r < rows; ++r)
      store_block(room.dscores + r * kStride, columns, reinterpret_cast<T*>(room.dscore_rows + r * kStride));
    return reinterpret_cast<const Unit<T>*>(static_cast<const C*>(room.dscore_rows));
  }

  const Tensor &dy_, &q_, &k_, &v_, &output_;
  const C* log_sum_exp_;
  const AttentionOptions& options_;
  DropoutRule rule_;
  std::int64_t batch_, rows_, places_, d_, width_, depth_width_;
  KeyMask<C> mask_;
  T *dq_, *dk_, *dv_;
};

}  // namespace

template <>
void attention_backward<DeviceType::cpu>(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionForward& forward, const AttentionOptions& options,
                                         AttentionGradients& result) {
  visit_floating("attention_backward", q.dtype(),
                 [&]<class T>() { BackwardOfHeads<T>(dy, q, k, v, forward, options, result).run(); });
}

}  // namespace tandem::core::kernels
