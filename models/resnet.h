// ResNet for images: 18 and 34 layers of basic blocks, 50, 101 and 152 of bottlenecks. Structure, names and order of
// parameters, and first weights are torchvision's, so weights can be exchanged.
//
//   input [N, C, H, W]                 stem imagenet         small
//   conv1, bn1, ReLU                   7x7 stride 2          3x3
//   max pool                           3x3 stride 2          none
//   layer1 ... layer4                  64, 128, 256, 512 wide; each but the first halves H and W
//   average over H and W, fc           [N, classes]
//
// A basic block is two 3x3 convolutions; a bottleneck 1x1, 3x3 with the block's stride, and 1x1 to four times the
// width. Activations are channels-last; adding the shortcut and ReLU are part of batch norm's passes. Source: He,
// Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015; the stride in the 3x3 convolution
// ("ResNet v1.5") is torchvision's.
#pragma once

#include <array>

#include "tandem/nn/batch_norm2d.h"
#include "tandem/nn/conv2d.h"
#include "tandem/nn/linear.h"
#include "tandem/nn/sequential.h"

namespace tandem::models {

/// What images are first met with: a quarter of their height and width, or, for small ones such as CIFAR's, all of it.
enum class Stem : std::uint8_t { imagenet, small };

struct ResNetOptions {
  int depth = 50;  ///< 18, 34, 50, 101 or 152
  std::int64_t classes = 1000;
  std::int64_t in_channels = 3;
  Stem stem = Stem::imagenet;
  /// Blocks start as their shortcut: the scale of their last norm is 0. Source: Goyal et al., "Accurate, large
  /// minibatch SGD", 2017.
  bool zero_init_residual = false;
  /// Convolutions do not keep inputs that batch norm and ReLU gave without a shortcut, but have them computed again in
  /// backward: less memory, a little more time, the same bits.
  bool recompute = false;
};

class ResNet final : public nn::Module {
 public:
  /// Throws where the depth is none of the five.
  explicit ResNet(core::Generator& random, const ResNetOptions& options = {});
  /// [N, in_channels, H, W] -> logits [N, classes]
  nn::Variable forward(const nn::Variable& x) override;

 private:
  Stem stem_;
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  std::array<nn::Sequential, 4> layers_;
  nn::Linear fc_;
};

}  // namespace tandem::models
