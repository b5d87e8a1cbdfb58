#include "tandem/models/resnet.h"

#include <fmt/ranges.h>

#include <memory>
#include <vector>

namespace tandem::models {

using namespace autograd;  // NOLINT: the operators are this file's vocabulary

namespace {

constexpr std::int64_t kWidth = 64;  // of the stem and of layer1

struct Plan {
  int depth;
  std::array<int, 4> blocks;
  bool bottleneck;

  std::int64_t expansion() const { return bottleneck ? 4 : 1; }
};

constexpr Plan kPlans[] = {{18, {2, 2, 2, 2}, false},
                           {34, {3, 4, 6, 3}, false},
                           {50, {3, 4, 6, 3}, true},
                           {101, {3, 4, 23, 3}, true},
                           {152, {3, 8, 36, 3}, true}};

const Plan& plan_of(int depth) {
  std::vector<int> known;
  for (const Plan& plan : kPlans) {
    if (plan.depth == depth) return plan;
    known.push_back(plan.depth);
  }
  core::fail("resnet: a depth of {} is none of {}", depth, fmt::join(known, ", "));
}

nn::Conv2dOptions convolution(std::int64_t kernel, std::int64_t stride) {
  const std::int64_t padding = kernel / 2;
  return {.stride = {stride, stride},
          .padding = {padding, padding},
          .bias = false,  // the norm's shift takes its place
          .init = nn::Conv2dInit::normal_by_fan_out};
}

// y = relu(f(x) + shortcut(x)). f alternates convolutions and norms; the shortcut is x, or a projection (`downsample`)
// where the shape changes.
class Block final : public nn::Module {
 public:
  Block(std::int64_t in, std::int64_t width, std::int64_t stride, const Plan& plan, const nn::BatchNormOptions& norm,
        core::Generator& random) {
    const std::int64_t out = width * plan.expansion();
    if (plan.bottleneck) {
      add(in, width, 1, 1, norm, random);
      add(width, width, 3, stride, norm, random);
      add(width, out, 1, 1, norm, random);
    } else {
      add(in, width, 3, stride, norm, random);
      add(width, out, 3, 1, norm, random);
    }
    if (stride == 1 && in == out) return;
    downsample_ = std::make_unique<nn::Sequential>();
    downsample_->add<nn::Conv2d>(in, out, 1, random, convolution(1, stride)).add<nn::BatchNorm2d>(out);
    register_module("downsample", *downsample_);
  }

  Variable forward(const Variable& x) override {
    Variable y = x;
    for (std::size_t i = 0; i + 1 < parts_.size(); ++i) y = parts_[i]->norm.forward_relu(parts_[i]->conv.forward(y));
    y = parts_.back()->conv.forward(y);
    return parts_.back()->norm.forward_add_relu(y, downsample_ ? downsample_->forward(x) : x);
  }

  nn::BatchNorm2d& last_norm() { return parts_.back()->norm; }

 private:
  struct Part {
    Part(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
         const nn::BatchNormOptions& of_norm, core::Generator& random)
        : conv(in, out, kernel, random, convolution(kernel, stride)), norm(out, of_norm) {}
    nn::Conv2d conv;
    nn::BatchNorm2d norm;
  };

  void add(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
           const nn::BatchNormOptions& norm, core::Generator& random) {
    parts_.push_back(std::make_unique<Part>(in, out, kernel, stride, norm, random));
    register_module(fmt::format("conv{}", parts_.size()), parts_.back()->conv);
    register_module(fmt::format("bn{}", parts_.size()), parts_.back()->norm);
  }

  std::vector<std::unique_ptr<Part>> parts_;
  std::unique_ptr<nn::Sequential> downsample_;
};

}  // namespace

ResNet::ResNet(core::Generator& random, const ResNetOptions& options)
    : stem_(options.stem),
      conv1_(options.in_channels, kWidth, options.stem == Stem::imagenet ? 7 : 3, random,
             options.stem == Stem::imagenet ? convolution(7, 2) : convolution(3, 1)),
      bn1_(kWidth, {.recompute = options.recompute}),
      fc_(8 * kWidth * plan_of(options.depth).expansion(), options.classes, random) {
  const Plan& plan = plan_of(options.depth);
  const nn::BatchNormOptions norm{.recompute = options.recompute};
  register_module("conv1", conv1_);
  register_module("bn1", bn1_);
  std::int64_t in = kWidth;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::int64_t width = kWidth << i;
    for (int k = 0; k < plan.blocks[i]; ++k) {
      auto block = std::make_unique<Block>(in, width, i > 0 && k == 0 ? 2 : 1, plan, norm, random);
      if (options.zero_init_residual) Tensor(block->last_norm().weight().data()).fill(0);
      layers_[i].add(std::move(block));
      in = width * plan.expansion();
    }
    register_module(fmt::format("layer{}", i + 1), layers_[i]);
  }
  register_module("fc", fc_);
}

Variable ResNet::forward(const Variable& input) {
  Variable x = bn1_.forward_relu(conv1_.forward(input));
  if (stem_ == Stem::imagenet) x = max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  for (nn::Sequential& layer : layers_) x = layer.forward(x);
  return fc_.forward(flatten(adaptive_avg_pool2d(x, {1, 1})));
}

}  // namespace tandem::models
