#include "tandem/core/ops/cross_entropy.h"

#include <memory>

#include "tandem/core/cpu/strided.h"
#include "tandem/core/ops/cpu/softmax.h"

namespace tandem::core::kernels {
using namespace cpu;
namespace {

// Logits of the positions whose losses are summed together; independent of the number of threads.
constexpr std::int64_t kChunkLogits = kGrain / 8;

// The constants of one call; see the formula in core/ops/cross_entropy.h.
template <class C>
struct Constants {
  const std::int64_t* target;
  const C* weights;  // or null
  std::int64_t classes, ignore_index;
  C likelihood;      // 1 - e
  C smoothing;       // e / C
  C sum_of_weights;  // over all classes

  Constants(const Tensor& labels, std::int64_t number_of_classes, const CrossEntropyOptions& options)
      : target(labels.data<std::int64_t>()),
        weights(options.class_weights.defined() ? options.class_weights.data<C>() : nullptr),
        classes(number_of_classes),
        ignore_index(options.ignore_index),
        likelihood(static_cast<C>(1 - options.label_smoothing)),
        smoothing(static_cast<C>(options.label_smoothing / static_cast<double>(std::max<std::int64_t>(1, classes)))),
        sum_of_weights(static_cast<C>(classes)) {
    if (weights == nullptr || smoothing == 0) return;
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += static_cast<double>(weights[c]);
    sum_of_weights = static_cast<C>(sum);
  }

  bool ignored(std::int64_t position) const { return target[position] == ignore_index; }
  C weight(std::int64_t c) const { return weights ? weights[c] : C{1}; }
};

// The normaliser and the loss of one position whose classes are adjacent.
template <class T>
double forward_row(const Constants<compute_t<T>>& k, std::int64_t position, const T* logits,
                   LogNormalizer<compute_t<T>>& normalize) {
  using C = compute_t<T>;
  normalize = log_normalizer(logits, k.classes);
  if (k.ignored(position)) return 0;
  const std::int64_t t = k.target[position];
  const double q = static_cast<double>(normalize(static_cast<C>(logits[t])));
  const double loss = -static_cast<double>(k.likelihood * k.weight(t)) * q;
  if (k.smoothing == 0) return loss;
  double smooth = 0;  // sum of w_c q_c
  C q_buffer[kRowBlock];
  for_each_block(k.classes, [&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) q_buffer[i] = normalize(static_cast<C>(logits[begin + i]));
    smooth +=
        static_cast<double>(k.weights ? block_dot(q_buffer, k.weights + begin, count) : block_sum(q_buffer, count));
  });
  return loss - static_cast<double>(k.smoothing) * smooth;
}

// Normalisers of n positions whose classes are `inner` elements apart.
template <class T, class C>
void plane_normalizers(const T* logits, std::int64_t classes, std::int64_t inner, std::int64_t n, C* max, C* log_sum) {
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    C buffer[kRowBlock], sum[kRowBlock] = {}, *largest = max + begin;
    std::fill_n(largest, count, -std::numeric_limits<C>::infinity());
    for (std::int64_t c = 0; c < classes; ++c) {
      const C* x = load_block(logits + c * inner + begin, count, buffer);
      for (std::int64_t i = 0; i < count; ++i) largest[i] = x[i] > largest[i] ? x[i] : largest[i];
    }
    for (std::int64_t c = 0; c < classes; ++c) {
      const C* x = load_block(logits + c * inner + begin, count, buffer);
      for (std::int64_t i = 0; i < count; ++i) sum[i] += exp_nonpositive(x[i] - largest[i]);
    }
    for (std::int64_t i = 0; i < count; ++i) log_sum[begin + i] = std::log(sum[i]);
  });
}

// The loss of one of them.
template <class T>
double strided_loss(const Constants<compute_t<T>>& k, std::int64_t position, const T* logits, std::int64_t inner,
                    const LogNormalizer<compute_t<T>>& normalize) {
  if (k.ignored(position)) return 0;
  const std::int64_t t = k.target[position];
  const auto q = [&](std::int64_t c) {
    return static_cast<double>(normalize(static_cast<compute_t<T>>(logits[c * inner])));
  };
  const double loss = -static_cast<double>(k.likelihood * k.weight(t)) * q(t);
  if (k.smoothing == 0) return loss;
  double smooth = 0;
  for (std::int64_t c = 0; c < k.classes; ++c) smooth += static_cast<double>(k.weight(c)) * q(c);
  return loss - static_cast<double>(k.smoothing) * smooth;
}

// dlogits of one position; g is the gradient of its loss.
template <class T>
void backward_row(const Constants<compute_t<T>>& k, std::int64_t position, compute_t<T> g, const T* logits,
                  const LogNormalizer<compute_t<T>>& normalize, T* out) {
  using C = compute_t<T>;
  if (k.ignored(position)) return static_cast<void>(std::fill_n(out, k.classes, T{}));
  const std::int64_t t = k.target[position];
  const C at_target = g * k.likelihood * k.weight(t), each = g * k.smoothing;
  const C total = at_target + (k.smoothing == 0 ? C{0} : each * k.sum_of_weights);
  C x_buffer[kRowBlock], out_buffer[kRowBlock];
  for_each_block(k.classes, [&](std::int64_t begin, std::int64_t count) {
    const C* x = load_block(logits + begin, count, x_buffer);
    C* result = store_target(out + begin, out_buffer);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) result[i] = total * exp_nonpositive(normalize(x[i]));
    if (k.smoothing != 0)
      for (std::int64_t i = 0; i < count; ++i) result[i] -= each * k.weight(begin + i);
    if (t >= begin && t < begin + count) result[t - begin] -= at_target;
    store_block(result, count, out + begin);
  });
}

// The same for `inner` positions whose classes are `inner` elements apart, from position `first` on.
template <class T, class Gradient>
void backward_plane(const Constants<compute_t<T>>& k, std::int64_t first, std::int64_t inner, Gradient&& g,
                    const T* logits, const compute_t<T>* max, const compute_t<T>* log_sum, T* out) {
  using C = compute_t<T>;
  C x_buffer[kRowBlock], out_buffer[kRowBlock], total[kRowBlock], each[kRowBlock], at_target[kRowBlock];
  for_each_block(inner, [&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t p = first + begin + i;
      const bool ignored = k.ignored(p);
      at_target[i] = ignored ? C{0} : g(p) * k.likelihood * k.weight(k.target[p]);
      each[i] = ignored || k.smoothing == 0 ? C{0} : g(p) * k.smoothing;  // 0 times an infinite gradient would be NaN
      total[i] = at_target[i] + each[i] * k.sum_of_weights;
    }
    for (std::int64_t c = 0; c < k.classes; ++c) {
      const std::int64_t at = c * inner + begin;
      const C *x = load_block(logits + at, count, x_buffer), *largest = max + first + begin;
      const C weight = k.weight(c), *log_sums = log_sum + first + begin;
      C* result = store_target(out + at, out_buffer);
      const std::int64_t* target = k.target + first + begin;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        const C p = exp_nonpositive((x[i] - largest[i]) - log_sums[i]);
        const C value = total[i] * p - each[i] * weight - (target[i] == c ? at_target[i] : C{0});
        result[i] = target[i] == k.ignore_index ? C{0} : value;
      }
      store_block(result, count, out + at);
    }
  });
}

// Of the sum of losses.
double divisor(const CrossEntropyOptions& options, const CrossEntropyResult& result) {
  return options.reduction == Reduction::mean ? *result.total_weight.data<double>() : 1;
}

}  // namespace

template <>
void cross_entropy_total_weight<DeviceType::cpu>(const Tensor& target, std::int64_t classes,
                                                 const CrossEntropyOptions& options, Tensor& total_weight) {
  const std::int64_t n = target.numel();
  const std::int64_t* labels = target.data<std::int64_t>();
  const auto sum = [&](auto weight) {
    double total = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (labels[i] == options.ignore_index) continue;
      if (labels[i] < 0 || labels[i] >= classes)
        fail("cross_entropy: target {} of position {} is not in [0, {}) and not ignore_index {}", labels[i], i, classes,
             options.ignore_index);
      total += weight(labels[i]);
    }
    return total;
  };
  if (!options.class_weights.defined()) {
    *total_weight.mutable_data<double>() = sum([](std::int64_t) { return 1.; });
    return;
  }
  visit_floating("cross_entropy", options.class_weights.dtype(), [&]<class W>() {
    const W* weights = options.class_weights.data<W>();
    *total_weight.mutable_data<double>() =
        sum([weights](std::int64_t c) { return static_cast<double>(static_cast<compute_t<W>>(weights[c])); });
  });
}

template <>
void cross_entropy<DeviceType::cpu>(const Tensor& logits, const Tensor& target, const CrossEntropyLayout& layout,
                                    const CrossEntropyOptions& options, CrossEntropyResult& result) {
  const std::int64_t positions = layout.outer * layout.inner, plane = layout.classes * layout.inner;
  const std::int64_t chunk_size = std::max<std::int64_t>(1, kChunkLogits / std::max<std::int64_t>(1, layout.classes));
  const std::int64_t chunks = (positions + chunk_size - 1) / chunk_size;
  double few_sums[16] = {};
  std::unique_ptr<double[]> many_sums(chunks > 16 ? new double[static_cast<std::size_t>(chunks)] : nullptr);
  double* sums = many_sums ? many_sums.get() : few_sums;
  visit_floating("cross_entropy", logits.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const Constants<C> k(target, layout.classes, options);
    const T* x = logits.data<T>();
    C *max = result.max.mutable_data<C>(), *log_sum = result.log_sum.mutable_data<C>();
    C* losses = result.loss.mutable_data<C>();
    const bool each = options.reduction == Reduction::none;
    if (layout.inner > 1)
      parallel_for(layout.outer, std::max<std::int64_t>(1, kGrain / 8 / std::max<std::int64_t>(1, plane)),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t o = begin; o < end; ++o)
                       plane_normalizers(x + o * plane, layout.classes, layout.inner, layout.inner,
                                         max + o * layout.inner, log_sum + o * layout.inner);
                   });
    const auto loss_of = [&](std::int64_t p) {
      LogNormalizer<C> normalize{max[p], log_sum[p]};
      if (layout.inner > 1)
        return strided_loss<T>(k, p, x + p / layout.inner * plane + p % layout.inner, layout.inner, normalize);
      const double loss = forward_row<T>(k, p, x + p * layout.classes, normalize);
      max[p] = normalize.max;
      log_sum[p] = normalize.log_sum;
      return loss;
    };
    parallel_chunks(positions, chunk_size, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
      double sum = 0;
      for (std::int64_t p = begin; p < end; ++p) {
        const double loss = loss_of(p);
        if (each) losses[p] = static_cast<C>(loss);
        sum += loss;
      }
      sums[chunk] = sum;
    });
    if (each) return;
    double total = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) total += sums[chunk];
    losses[0] = static_cast<C>(total / divisor(options, result));
  });
}

template <>
void cross_entropy_backward<DeviceType::cpu>(const Tensor& dloss, const Tensor& logits,
                                             const CrossEntropyResult& forward, const Tensor& target,
                                             const CrossEntropyLayout& layout, const CrossEntropyOptions& options,
                                             Tensor& dlogits) {
  visit_floating("cross_entropy_backward", logits.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const Constants<C> k(target, layout.classes, options);
    const C *gradient = dloss.data<C>(), *max = forward.max.data<C>(), *log_sum = forward.log_sum.data<C>();
    const T* x = logits.data<T>();
    T* out = dlogits.mutable_data<T>();
    const bool each = options.reduction == Reduction::none;
    const C inverse = static_cast<C>(1 / divisor(options, forward));
    const auto g = [&](std::int64_t p) { return gradient[each ? p : 0] * inverse; };
    const std::int64_t size = layout.classes * layout.inner;
    parallel_for(layout.outer, std::max<std::int64_t>(1, kGrain / 8 / size), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        if (layout.inner == 1)
          backward_row<T>(k, o, g(o), x + o * size, {max[o], log_sum[o]}, out + o * size);
        else
          backward_plane<T>(k, o * layout.inner, layout.inner, g, x + o * size, max, log_sum, out + o * size);
      }
    });
  });
}

}  // namespace tandem::core::kernels
