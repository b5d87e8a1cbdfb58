// Modules one after another.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tandem/nn/module.h"

namespace tandem::nn {

/// Names are positions: "0.weight", "2.bias".
///
///   Sequential net;
///   net.add<Linear>(16, 32, random).add<ReLU>().add<Linear>(32, 10, random);
class Sequential final : public Module {
 public:
  template <class M, class... Args>
  Sequential& add(Args&&... args) {
    return add(std::make_unique<M>(std::forward<Args>(args)...));
  }
  Sequential& add(std::unique_ptr<Module> module) {
    if (!module) core::fail("sequential: layer {} is null", layers_.size());
    register_module(std::to_string(layers_.size()), *module);
    layers_.push_back(std::move(module));
    return *this;
  }

  Variable forward(const Variable& input) override {
    Variable x = input;
    for (const auto& layer : layers_) x = layer->forward(x);
    return x;
  }

 private:
  std::vector<std::unique_ptr<Module>> layers_;
};

}  // namespace tandem::nn
