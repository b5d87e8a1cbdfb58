#include "tandem/core/ops/cross_entropy.h"

#include "tandem/core/ops/dispatch.h"

namespace tandem::core {
namespace {

void check(const char* op, const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const Shape& shape = logits.shape();
  bool fits = shape.rank() >= 2 && target.rank() == shape.rank() - 1;
  for (int i = 0; fits && i < target.rank(); ++i) fits = target.shape()[i] == shape[i == 0 ? 0 : i + 1];
  if (!fits)
    fail("{}: logits [N, C, ...] need a target [N, ...], got {} and {}", op, shape.str(), target.shape().str());
  if (!is_floating(logits.dtype())) fail("{}: logits need a floating dtype, got {}", op, name(logits.dtype()));
  if (target.dtype() != DType::int64) fail("{}: the target needs to be int64, got {}", op, name(target.dtype()));
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    fail("{}: label_smoothing {} is not in [0, 1]", op, options.label_smoothing);
  const Tensor& weights = options.class_weights;
  if (weights.defined() && !(weights.shape() == Shape{shape[1]} && is_floating(weights.dtype())))
    fail("{}: class weights {} {} do not fit {} classes", op, name(weights.dtype()), weights.shape().str(), shape[1]);
}

// True where the classes are adjacent in memory and positions follow each other in the target's order.
bool has_adjacent_classes(const Tensor& logits) {
  std::int64_t expected = logits.shape()[1];
  if (expected > 1 && logits.strides()[1] != 1) return false;
  for (int i = logits.rank() - 1; i >= 0; --i) {
    if (i == 1) continue;
    if (logits.shape()[i] > 1 && logits.strides()[i] != expected) return false;
    expected *= logits.shape()[i];
  }
  return true;
}

// Of a tensor that has adjacent classes or is contiguous.
CrossEntropyLayout layout_of(const Tensor& logits, const Tensor& target) {
  const std::int64_t positions = target.numel(), batch = logits.shape()[0], classes = logits.shape()[1];
  if (has_adjacent_classes(logits) || positions == 0) return {.outer = positions, .classes = classes, .inner = 1};
  return {.outer = batch, .classes = classes, .inner = positions / batch};
}

DType statistics_dtype(const Tensor& logits) {
  return logits.dtype() == DType::float64 ? DType::float64 : DType::float32;
}

Tensor canonical(const Tensor& logits) {
  return has_adjacent_classes(logits) || logits.is_contiguous() ? logits : logits.contiguous();
}

// What the kernels take: weights in the compute type. Copies the options only where there are weights.
const CrossEntropyOptions& prepared(const CrossEntropyOptions& options, const Tensor& logits,
                                    CrossEntropyOptions& storage) {
  if (!options.class_weights.defined()) return options;
  storage = options;
  storage.class_weights = options.class_weights.to(statistics_dtype(logits)).contiguous();
  return storage;
}

}  // namespace

CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  check("cross_entropy", logits, target, options);
  CrossEntropyOptions storage;
  const CrossEntropyOptions& ready = prepared(options, logits, storage);
  const Tensor x = canonical(logits), labels = target.contiguous();
  const bool each = options.reduction == Reduction::none;
  const TensorOptions statistics{.dtype = statistics_dtype(logits), .device = logits.device()};
  CrossEntropyResult result{.loss = Tensor::empty(each ? target.shape() : Shape{}, statistics),
                            .max = Tensor::empty(target.shape(), statistics),
                            .log_sum = Tensor::empty(target.shape(), statistics),
                            .total_weight = Tensor::empty({}, {.dtype = DType::float64, .device = logits.device()})};
  TANDEM_DISPATCH("cross_entropy", logits.device(), cross_entropy_total_weight, labels, x.shape()[1], ready,
                  result.total_weight);
  TANDEM_DISPATCH("cross_entropy", logits.device(), cross_entropy, x, labels, layout_of(x, labels), ready, result);
  return result;
}

Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                              const CrossEntropyOptions& options, const CrossEntropyResult& forward) {
  constexpr const char* kOp = "cross_entropy_backward";
  check(kOp, logits, target, options);
  const Shape expected = options.reduction == Reduction::none ? target.shape() : Shape{};
  if (dloss.shape() != expected || dloss.dtype() != statistics_dtype(logits))
    fail("{}: gradient {} {} of a loss {} {}", kOp, name(dloss.dtype()), dloss.shape().str(),
         name(statistics_dtype(logits)), expected.str());
  for (const Tensor* of_each : {&forward.max, &forward.log_sum})
    if (!of_each->defined() || of_each->shape() != target.shape() || of_each->dtype() != dloss.dtype())
      fail("{}: normaliser {} {} is not what forward gave for logits {}", kOp, name(of_each->dtype()),
           of_each->shape().str(), logits.shape().str());
  CrossEntropyOptions storage;
  const CrossEntropyOptions& ready = prepared(options, logits, storage);
  const Tensor x = canonical(logits), labels = target.contiguous(), gradient = dloss.contiguous();
  Tensor dlogits = Tensor::empty_like(x);
  if (x.numel() > 0)
    TANDEM_DISPATCH(kOp, x.device(), cross_entropy_backward, gradient, x, forward, labels, layout_of(x, labels), ready,
                    dlogits);
  return dlogits;
}

}  // namespace tandem::core
