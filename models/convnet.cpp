#include "tandem/models/convnet.h"

namespace tandem::models {

using namespace autograd;  // NOLINT: the operators are this file's vocabulary

ConvNet::ConvNet(core::Generator& random, std::int64_t in_channels, std::int64_t classes)
    : conv1_(in_channels, 32, {3, 3}, random, {.activation = core::Activation::relu}),
      conv2_(32, 64, {3, 3}, random),
      dropout1_(0.25),
      dropout2_(0.5),
      fc1_(9216, 128, random),
      fc2_(128, classes, random) {
  register_module("conv1", conv1_);
  register_module("conv2", conv2_);
  register_module("dropout1", dropout1_);
  register_module("dropout2", dropout2_);
  register_module("fc1", fc1_);
  register_module("fc2", fc2_);
}

Variable ConvNet::forward(const Variable& input) {
  Variable x = conv2_.forward(conv1_.forward(input));
  // ReLU commutes with the maximum, and is done on a quarter of the elements.
  x = relu(max_pool2d(x, {.kernel = {2, 2}}));
  x = flatten(dropout1_.forward(x));
  x = dropout2_.forward(relu(fc1_.forward(x)));
  return fc2_.forward(x);
}

}  // namespace tandem::models
