// The two-convolution net of PyTorch's MNIST example, for 28 x 28 images. Grey ones and 10 classes: 1,199,882
// parameters.
//
//   input [N, C, 28, 28]
//   conv1 3x3, 32, ReLU      [N, 32, 26, 26]
//   conv2 3x3, 64, ReLU      [N, 64, 24, 24]
//   max pool 2x2             [N, 64, 12, 12]
//   dropout 0.25, flatten    [N, 9216]
//   fc1 128, ReLU            [N, 128]
//   dropout 0.5, fc2         [N, classes]
#pragma once

#include "tandem/nn/conv2d.h"
#include "tandem/nn/dropout.h"
#include "tandem/nn/linear.h"

namespace tandem::models {

class ConvNet final : public nn::Module {
 public:
  explicit ConvNet(core::Generator& random, std::int64_t in_channels = 1, std::int64_t classes = 10);
  nn::Variable forward(const nn::Variable& x) override;

 private:
  nn::Conv2d conv1_, conv2_;
  nn::Dropout dropout1_, dropout2_;
  nn::Linear fc1_, fc2_;
};

}  // namespace tandem::models
