#include "tandem/models/mlp.h"

namespace tandem::models {

using namespace autograd;  // NOLINT: the operators are this file's vocabulary

Mlp::Mlp(core::Generator& random, std::int64_t in_features, std::int64_t hidden, std::int64_t classes)
    : fc1_(in_features, hidden, random), fc2_(hidden, classes, random) {
  register_module("fc1", fc1_);
  register_module("fc2", fc2_);
}

Variable Mlp::forward(const Variable& x) { return fc2_.forward(relu(fc1_.forward(flatten(x)))); }

}  // namespace tandem::models
