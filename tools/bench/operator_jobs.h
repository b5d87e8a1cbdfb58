// The operators that `bench ops` runs, each with the least work that it must do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tandem::bench {

struct OperatorJob {
  std::string name;           ///< "conv2 backward weight"
  double flops = 0;           ///< multiply-adds count twice; 0 where memory alone decides
  double bytes = 0;           ///< every operand read once, every result written once
  std::function<void()> run;  ///< one call; its operands live in the closure
};

/// At the shapes of models/convnet.h, float32, in the memory order that they have there; then those of a layer of BERT
/// base, which do not depend on `batch_size`.
std::vector<OperatorJob> operator_jobs(std::int64_t batch_size);

}  // namespace tandem::bench
