#include "tandem/core/ops/cross_entropy.h"

#include <memory>

#include "tandem/core/ops/cpu/softmax.h"
#include "tandem/core/ops/cpu/strided.h"
#include "tandem/core/ops/softmax.h"

namespace tandem::core::cpu {
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

// Writes the log-probabilities of one position and returns its loss.
template <class T>
double forward_row(const Constants<compute_t<T>>& k, std::int64_t position, const T* logits, T* out) {
  using C = compute_t<T>;
  const auto normalize = log_normalizer(logits, k.classes);
  const bool ignored = k.ignored(position);
  double smooth = 0;  // sum of w_c q_c
  C buffer[kRowBlock];
  for_each_block(k.classes, [&](std::int64_t begin, std::int64_t count) {
    const T* x = logits + begin;
    C* q = store_target(out + begin, buffer);
    for (std::int64_t i = 0; i < count; ++i) q[i] = normalize(static_cast<C>(x[i]));
    if (k.smoothing != 0 && !ignored)
      smooth += static_cast<double>(k.weights ? block_dot(q, k.weights + begin, count) : block_sum(q, count));
    store_block(q, count, out + begin);
  });
  if (ignored) return 0;
  const std::int64_t t = k.target[position];
  const double q = static_cast<double>(normalize(static_cast<C>(logits[t])));
  double loss = -static_cast<double>(k.likelihood * k.weight(t)) * q;
  if (k.smoothing != 0) loss -= static_cast<double>(k.smoothing) * smooth;
  return loss;
}

// The same where the classes of a position are `inner` elements apart and log-probabilities are there already.
template <class T>
double strided_loss(const Constants<compute_t<T>>& k, std::int64_t position, const T* q, std::int64_t inner) {
  if (k.ignored(position)) return 0;
  const std::int64_t t = k.target[position];
  const auto at = [q, inner](std::int64_t c) { return static_cast<double>(static_cast<compute_t<T>>(q[c * inner])); };
  double loss = -static_cast<double>(k.likelihood * k.weight(t)) * at(t);
  if (k.smoothing == 0) return loss;
  double smooth = 0;
  for (std::int64_t c = 0; c < k.classes; ++c) smooth += static_cast<double>(k.weight(c)) * at(c);
  return loss - static_cast<double>(k.smoothing) * smooth;
}

// dlogits of one position; g is the gradient of its loss.
template <class T>
void backward_row(const Constants<compute_t<T>>& k, std::int64_t position, compute_t<T> g, const T* q, T* out) {
  using C = compute_t<T>;
  if (k.ignored(position)) return static_cast<void>(std::fill_n(out, k.classes, T{}));
  const std::int64_t t = k.target[position];
  const C at_target = g * k.likelihood * k.weight(t), each = g * k.smoothing;
  const C total = at_target + (k.smoothing == 0 ? C{0} : each * k.sum_of_weights);
  C q_buffer[kRowBlock], out_buffer[kRowBlock];
  for_each_block(k.classes, [&](std::int64_t begin, std::int64_t count) {
    const C* block = load_block(q + begin, count, q_buffer);
    C* result = store_target(out + begin, out_buffer);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) result[i] = total * exp_nonpositive(block[i]);
    if (k.smoothing != 0)
      for (std::int64_t i = 0; i < count; ++i) result[i] -= each * k.weight(begin + i);
    if (t >= begin && t < begin + count) result[t - begin] -= at_target;
    store_block(result, count, out + begin);
  });
}

// The same for `inner` positions whose classes are `inner` elements apart, from position `first` on.
template <class T, class Gradient>
void backward_plane(const Constants<compute_t<T>>& k, std::int64_t first, std::int64_t inner, Gradient&& g, const T* q,
                    T* out) {
  using C = compute_t<T>;
  C q_buffer[kRowBlock], out_buffer[kRowBlock], total[kRowBlock], each[kRowBlock], at_target[kRowBlock];
  for_each_block(inner, [&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t p = first + begin + i;
      const bool ignored = k.ignored(p);
      at_target[i] = ignored ? C{0} : g(p) * k.likelihood * k.weight(k.target[p]);
      each[i] = ignored ? C{0} : g(p) * k.smoothing;
      total[i] = at_target[i] + (k.smoothing == 0 ? C{0} : each[i] * k.sum_of_weights);
    }
    for (std::int64_t c = 0; c < k.classes; ++c) {
      const std::int64_t at = c * inner + begin;
      const C* block = load_block(q + at, count, q_buffer);
      C* result = store_target(out + at, out_buffer);
      const C weight = k.weight(c);
      const std::int64_t* target = k.target + first + begin;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        const C value =
            total[i] * exp_nonpositive(block[i]) - each[i] * weight - (target[i] == c ? at_target[i] : C{0});
        result[i] = target[i] == k.ignore_index ? C{0} : value;
      }
      store_block(result, count, out + at);
    }
  });
}

}  // namespace

void cross_entropy_total_weight(const Tensor& target, std::int64_t classes, const CrossEntropyOptions& options,
                                double& total_weight) {
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
    total_weight = sum([](std::int64_t) { return 1.; });
    return;
  }
  visit_floating("cross_entropy", options.class_weights.dtype(), [&]<class W>() {
    const W* weights = options.class_weights.data<W>();
    total_weight =
        sum([weights](std::int64_t c) { return static_cast<double>(static_cast<compute_t<W>>(weights[c])); });
  });
}

void cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyLayout& layout,
                   const CrossEntropyOptions& options, double divisor, Tensor& loss, Tensor& log_probabilities) {
  const std::int64_t positions = layout.outer * layout.inner;
  const std::int64_t chunk_size = std::max<std::int64_t>(1, kChunkLogits / std::max<std::int64_t>(1, layout.classes));
  const std::int64_t chunks = (positions + chunk_size - 1) / chunk_size;
  double few_sums[16] = {};
  std::unique_ptr<double[]> many_sums(chunks > 16 ? new double[static_cast<std::size_t>(chunks)] : nullptr);
  double* sums = many_sums ? many_sums.get() : few_sums;
  if (layout.inner > 1 && layout.classes > 0) log_softmax(logits, 1, log_probabilities);
  visit_floating("cross_entropy", logits.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const Constants<C> k(target, layout.classes, options);
    const T* x = logits.data<T>();
    T* q = log_probabilities.mutable_data<T>();
    T* losses = loss.mutable_data<T>();
    const bool each = options.reduction == Reduction::none;
    const auto range = [&](std::int64_t begin, std::int64_t end) {
      double sum = 0;
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int64_t o = p / layout.inner * layout.classes * layout.inner + p % layout.inner;
        const double value = layout.inner == 1 ? forward_row<T>(k, p, x + p * layout.classes, q + p * layout.classes)
                                               : strided_loss<T>(k, p, q + o, layout.inner);
        if (each) losses[p] = static_cast<T>(static_cast<C>(value));
        sum += value;
      }
      return sum;
    };
    parallel_chunks(positions, chunk_size,
                    [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) { sums[chunk] = range(begin, end); });
    if (each) return;
    double total = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) total += sums[chunk];
    losses[0] = static_cast<T>(static_cast<C>(total / divisor));
  });
}

void cross_entropy_backward(const Tensor& dloss, const Tensor& log_probabilities, const Tensor& target,
                            const CrossEntropyLayout& layout, const CrossEntropyOptions& options, double divisor,
                            Tensor& dlogits) {
  visit_floating("cross_entropy_backward", log_probabilities.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const Constants<C> k(target, layout.classes, options);
    const T *gradient = dloss.data<T>(), *q = log_probabilities.data<T>();
    T* out = dlogits.mutable_data<T>();
    const bool each = options.reduction == Reduction::none;
    const C inverse = static_cast<C>(1 / divisor);
    const auto g = [&](std::int64_t p) { return static_cast<C>(gradient[each ? p : 0]) * inverse; };
    const std::int64_t size = layout.classes * layout.inner;
    parallel_for(layout.outer, std::max<std::int64_t>(1, kGrain / 8 / size), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        if (layout.inner == 1)
          backward_row<T>(k, o, g(o), q + o * size, out + o * size);
        else
          backward_plane<T>(k, o * layout.inner, layout.inner, g, q + o * size, out + o * size);
      }
    });
  });
}

}  // namespace tandem::core::cpu
