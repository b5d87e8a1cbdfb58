// What a user's first program does: make tensors, view, copy, print. Exits 1 where a value is wrong.
#include <cstdio>
#include <vector>

#include "tandem/core/tensor.h"

using tandem::core::DType;
using tandem::core::Tensor;

int main() {
  const Tensor t = Tensor::arange(6, DType::float32).reshape({2, 3});
  const Tensor columns = t.transpose(0, 1).contiguous();
  const Tensor half = columns.to(DType::bfloat16);
  std::printf("%s\n", half.str().c_str());

  bool rejected = false;
  try {
    (void)t.reshape({4, 2});
  } catch (const tandem::core::Error& error) {
    std::printf("%s\n", error.what());
    rejected = true;
  }
  return half.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5} && rejected ? 0 : 1;
}
