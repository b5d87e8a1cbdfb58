// Activations and reshaping as modules, for Sequential. Elsewhere call the operators of autograd/ops.h.
#pragma once

#include "tandem/nn/module.h"

namespace tandem::nn {

class ReLU final : public Module {
 public:
  Variable forward(const Variable& x) override { return autograd::relu(x); }
};

class Sigmoid final : public Module {
 public:
  Variable forward(const Variable& x) override { return autograd::sigmoid(x); }
};

class Tanh final : public Module {
 public:
  Variable forward(const Variable& x) override { return autograd::tanh(x); }
};

/// [N, ...] -> [N, rest]
class Flatten final : public Module {
 public:
  Variable forward(const Variable& x) override { return autograd::flatten(x, 1); }
};

}  // namespace tandem::nn
