#include "tools/bench/operator_jobs.h"

#include "tandem/core/ops/attention.h"
#include "tandem/core/ops/batch_norm.h"
#include "tandem/core/ops/binary.h"
#include "tandem/core/ops/conv2d.h"
#include "tandem/core/ops/cross_entropy.h"
#include "tandem/core/ops/dropout.h"
#include "tandem/core/ops/dropout_add_layer_norm.h"
#include "tandem/core/ops/gelu.h"
#include "tandem/core/ops/layer_norm.h"
#include "tandem/core/ops/linear.h"
#include "tandem/core/ops/matmul.h"
#include "tandem/core/ops/max_pool2d.h"
#include "tandem/core/ops/norm.h"
#include "tandem/core/ops/random_fill.h"
#include "tandem/core/ops/reduce.h"
#include "tandem/core/ops/softmax.h"
#include "tandem/core/ops/unary.h"

namespace tandem::bench {
namespace {

using core::MemoryFormat;
using core::Shape;
using core::Tensor;

Tensor uniform(const Shape& shape, MemoryFormat format = MemoryFormat::contiguous) {
  Tensor tensor = Tensor::empty(shape);
  core::fill_uniform(tensor, -1, 1, core::RandomContext{.seed = 1}.stream(0));
  return tensor.contiguous(format);
}

Tensor images(const Shape& shape) { return uniform(shape, MemoryFormat::channels_last); }

class Jobs {
 public:
  explicit Jobs(std::int64_t batch_size) : n_(batch_size) {}

  void convolution(const std::string& name, const Shape& x_shape, const Shape& weight_shape,
                   const core::Conv2dOptions& options, bool first_layer) {
    const Tensor x = images(x_shape), weight = uniform(weight_shape), bias = uniform({weight_shape[0]});
    const Tensor y = core::conv2d(x, weight, bias, options), dy = images(y.shape());
    const double flops = 2.0 * static_cast<double>(y.numel() * weight_shape[1] * weight_shape[2] * weight_shape[3]);
    const double moved = bytes({x, weight, y});
    add(name + " forward", flops, moved, [=] { core::conv2d(x, weight, bias, options); });
    if (options.activation == core::Activation::relu)
      add(name + " backward relu and bias", 0, bytes({dy, y, y}),
          [=, dbias = bias.clone()]() mutable { core::conv2d_relu_backward(dy, y, dbias, false); });
    else
      add(name + " backward bias", 0, bytes({dy}),
          [=, dbias = bias.clone()]() mutable { core::conv2d_backward_bias(dy, dbias, false); });
    add(name + " backward weight", flops, moved,
        [=, dweight = weight.clone()]() mutable { core::conv2d_backward_weight(dy, x, dweight, false, options); });
    if (!first_layer)
      add(name + " backward input", flops, moved, [=] { core::conv2d_backward_input(dy, weight, x.shape(), options); });
  }

  void linear(const std::string& name, std::int64_t in, std::int64_t out) {
    const Tensor x = uniform({n_, in}), weight = uniform({out, in}), bias = uniform({out}), dy = uniform({n_, out});
    const double flops = 2.0 * static_cast<double>(n_ * in * out), moved = bytes({x, weight, dy});
    add(name + " forward", flops, moved, [=] { core::linear(x, weight, bias); });
    add(name + " backward bias", 0, bytes({dy}),
        [=, dbias = bias.clone()]() mutable { core::linear_backward_bias(dy, dbias, false); });
    add(name + " backward weight", flops, moved,
        [=, dweight = weight.clone()]() mutable { core::linear_backward_weight(dy, x, dweight, false); });
    add(name + " backward input", flops, moved, [=] { core::linear_backward_input(dy, weight); });
  }

  void max_pool() {
    const Tensor x = images({n_, 64, 24, 24});
    const core::Pool2dOptions options{.kernel = {2, 2}};
    const core::MaxPool2dResult pooled = core::max_pool2d(x, options);
    const double moved = bytes({x, pooled.output, pooled.indices});
    add("max_pool2d forward", 0, moved, [=] { core::max_pool2d(x, options); });
    add("max_pool2d backward", 0, moved,
        [=, shape = x.shape()] { core::max_pool2d_backward(pooled.output, pooled.indices, shape, options); });
  }

  void after_pool() {
    const Tensor x = images({n_, 64, 12, 12}), y = core::relu(x);
    add("relu forward", 0, bytes({x, y}), [=] { core::relu(x); });
    add("relu backward", 0, bytes({x, y, y}), [=] { core::relu_backward(x, y); });
    const core::PhiloxStream stream = core::RandomContext{}.stream(1);
    const core::DropoutResult dropped = core::dropout(x, 0.25, stream);
    add("dropout forward", 0, bytes({x, x, dropped.mask}), [=] { core::dropout(x, 0.25, stream); });
    add("dropout backward", 0, bytes({x, x, dropped.mask}), [=] { core::dropout_backward(x, dropped.mask, 0.25); });
    add("flatten (channels-last to rows)", 0, bytes({x, x}), [=] { x.reshape({n_of(x), -1}); });
  }

  void loss() {
    const Tensor logits = uniform({n_, 10});
    Tensor target = Tensor::zeros({n_}, {.dtype = core::DType::int64});
    const core::CrossEntropyResult result = core::cross_entropy(logits, target);
    add("cross_entropy forward", 0, bytes({logits, logits, target}), [=] { core::cross_entropy(logits, target); });
    add("cross_entropy backward", 0, bytes({logits, logits, target}),
        [=, dloss = Tensor::scalar(1)] { core::cross_entropy_backward(dloss, logits, target, {}, result); });
    add("softmax forward", 0, bytes({logits, logits}), [=] { core::softmax(logits, 1); });
  }

  // What the convnet does not use, at the size of its second convolution's output.
  void others() {
    const Tensor x = images({n_, 64, 24, 24}), other = images(x.shape()), weight = uniform({64}), bias = uniform({64});
    const core::BatchNormForward normal = core::batch_norm_training(x, weight, bias, 1e-5);
    add("batch_norm forward", 0, bytes({x, x, x}), [=] { core::batch_norm_training(x, weight, bias, 1e-5); });
    add("batch_norm backward", 0, bytes({x, x, x, x, x}),
        [=, dweight = weight.clone(), dbias = bias.clone()]() mutable {
          core::batch_norm_backward(other, x, weight, normal.mean, normal.inv_std, dweight, dbias, false);
        });
    add("add", 0, bytes({x, x, x}), [=] { core::add(x, other); });
    add("mul", 0, bytes({x, x, x}), [=] { core::mul(x, other); });
    add("exp", 0, bytes({x, x}), [=] { core::exp(x); });
    add("tanh", 0, bytes({x, x}), [=] { core::tanh(x); });
    add("sum of all", 0, bytes({x}), [=] { core::sum(x, {}, false); });
    add("sum to channels", 0, bytes({x}), [=] { core::sum(x, {0, 2, 3}, false); });
    add("sum of squares", 0, bytes({x}), [=] { core::sum_of_squares(x); });
    const Tensor a = uniform({1024, 1024}), b = uniform({1024, 1024});
    add("matmul 1024", 2.0 * 1024 * 1024 * 1024, bytes({a, b, a}), [=] { core::matmul(a, b); });
  }

  // A layer of BERT base, sequences of 128: 12 heads, hidden size 768, 3072 between.
  void transformer() {
    const std::int64_t sequences = 8, length = 128, hidden = 768;
    const Shape shape{sequences, length, hidden};
    const core::PhiloxStream stream = core::RandomContext{}.stream(1);
    const Tensor q = uniform(shape), k = uniform(shape), v = uniform(shape), dy = uniform(shape);
    for (const double p : {0., 0.1}) {
      const core::AttentionOptions options{.heads = 12, .dropout_p = p, .stream = stream};
      const core::AttentionForward forward = core::attention(q, k, v, options);
      const double product = 2.0 * static_cast<double>(sequences * length * length * hidden);
      const std::string name = p > 0 ? "attention with dropout" : "attention";
      add(name + " forward", 2 * product, bytes({q, k, v, q}), [=] { core::attention(q, k, v, options); });
      add(name + " backward", 5 * product, bytes({q, k, v, q, q, q, k, v}),
          [=] { core::attention_backward(dy, q, k, v, forward, options); });
    }
    const Tensor weight = uniform({hidden}), bias = uniform({hidden});
    const core::LayerNormForward normal = core::layer_norm(q, weight, bias, 1e-12);
    add("layer_norm forward", 0, bytes({q, q}), [=] { core::layer_norm(q, weight, bias, 1e-12); });
    add("layer_norm backward", 0, bytes({q, q, q}), [=, dweight = weight.clone(), dbias = bias.clone()]() mutable {
      core::layer_norm_backward(dy, q, weight, normal.mean, normal.inv_std, dweight, dbias, false);
    });
    const auto sum = core::dropout_add_layer_norm(q, k, weight, bias, 1e-12, 0.1, stream);
    add("dropout_add_layer_norm forward", 0, bytes({q, q, q, q, sum.mask}),
        [=] { core::dropout_add_layer_norm(q, k, weight, bias, 1e-12, 0.1, stream); });
    add("dropout_add_layer_norm backward", 0, bytes({q, q, q, q, sum.mask}),
        [=, dweight = weight.clone(), dbias = bias.clone()]() mutable {
          core::dropout_add_layer_norm_backward(dy, sum, weight, 0.1, dweight, dbias, false);
        });
    const Tensor x = uniform({sequences, length, 4 * hidden}), dx = uniform(x.shape()), shift = uniform({4 * hidden});
    add("bias_gelu forward", 0, bytes({x, x}), [=] { core::bias_gelu(x, shift); });
    add("bias_gelu backward", 0, bytes({x, x, x}), [=, dbias = shift.clone()]() mutable {
      core::bias_gelu_backward(dx, x, shift, core::GeluApproximation::none, dbias, false);
    });
  }

  std::vector<OperatorJob> take() { return std::move(jobs_); }

 private:
  static std::int64_t n_of(const Tensor& x) { return x.size(0); }
  static double bytes(std::initializer_list<Tensor> tensors) {
    double sum = 0;
    for (const Tensor& tensor : tensors) sum += static_cast<double>(tensor.bytes());
    return sum;
  }
  void add(std::string name, double flops, double moved, std::function<void()> run) {
    jobs_.push_back({std::move(name), flops, moved, std::move(run)});
  }

  std::int64_t n_;
  std::vector<OperatorJob> jobs_;
};

}  // namespace

std::vector<OperatorJob> operator_jobs(std::int64_t batch_size) {
  Jobs jobs(batch_size);
  jobs.convolution("conv1", {batch_size, 1, 28, 28}, {32, 1, 3, 3}, {.activation = core::Activation::relu}, true);
  jobs.convolution("conv2", {batch_size, 32, 26, 26}, {64, 32, 3, 3}, {}, false);
  jobs.max_pool();
  jobs.after_pool();
  jobs.linear("fc1", 9216, 128);
  jobs.linear("fc2", 128, 10);
  jobs.loss();
  jobs.others();
  jobs.transformer();
  return jobs.take();
}

}  // namespace tandem::bench
