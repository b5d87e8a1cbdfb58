// Models whose gradients can be told in one's head.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tandem/autograd/engine.h"
#include "tandem/distributed/distributed_data_parallel.h"
#include "tandem/distributed/world.h"

namespace tandem::distributed {

using autograd::Variable;
using core::DType;
using Values = std::vector<double>;

/// Parameters that are plain vectors; a loss picks what it likes of them.
class Vectors final : public nn::Module {
 public:
  Vectors(const std::vector<std::pair<std::string, core::Shape>>& named, double first, DType dtype = DType::float64) {
    for (const auto& [name, shape] : named)
      all.push_back(register_parameter(name, Tensor::full(shape, first++, {.dtype = dtype})));
  }
  std::vector<Variable> all;
};

/// d loss / d parameter = factor, everywhere.
inline Variable loss_of(const Variable& parameter, double factor) { return autograd::sum(parameter * factor); }

inline Values values(const Tensor& tensor) { return tensor.to_vector<double>(); }
inline Values filled(std::size_t count, double value) { return Values(count, value); }

/// The mean of f(rank) over `size` ranks.
template <class F>
double mean(int size, F&& f) {
  double sum = 0;
  for (int r = 0; r < size; ++r) sum += f(r);
  return sum / size;
}

inline std::shared_ptr<ProcessGroup> group_of(World& world) { return world.make_group("world"); }

}  // namespace tandem::distributed
