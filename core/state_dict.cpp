#include "tandem/core/state_dict.h"

namespace tandem::core {

const Tensor& find(const StateDict& state, const std::string& name, const char* what) {
  for (const auto& [key, tensor] : state)
    if (key == name) return tensor;
  fail("{}: the state has no entry '{}'", what, name);
}

}  // namespace tandem::core
