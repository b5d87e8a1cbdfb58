#include "tandem/core/ops/unary.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/ops/binary.h"

namespace tandem::autograd {

Variable neg(const Variable& x) {
  return record("neg", core::neg(x.data()), {x}, [](Tensor dy, Gradients& dx) { dx.add(0, core::neg(dy)); });
}

Variable abs(const Variable& x) {
  return record("abs", core::abs(x.data()), {x}, [x = SavedTensor(x.data())](Tensor dy, Gradients& dx) {
    dx.add(0, core::mul(dy, core::sign(x.get())));
  });
}

Variable exp(const Variable& x) {
  Tensor y = core::exp(x.data());
  return record("exp", y, {x}, [y = SavedTensor(y)](Tensor dy, Gradients& dx) { dx.add(0, core::mul(dy, y.get())); });
}

Variable log(const Variable& x) {
  return record("log", core::log(x.data()), {x},
                [x = SavedTensor(x.data())](Tensor dy, Gradients& dx) { dx.add(0, core::div(dy, x.get())); });
}

Variable sqrt(const Variable& x) {
  Tensor y = core::sqrt(x.data());
  return record("sqrt", y, {x}, [y = SavedTensor(y)](Tensor dy, Gradients& dx) {
    dx.add(0, core::mul_scalar(core::div(dy, y.get()), 0.5));
  });
}

Variable square(const Variable& x) {
  return record("square", core::square(x.data()), {x}, [x = SavedTensor(x.data())](Tensor dy, Gradients& dx) {
    dx.add(0, core::mul_scalar(core::mul(dy, x.get()), 2));
  });
}

Variable reciprocal(const Variable& x) {
  Tensor y = core::reciprocal(x.data());
  return record("reciprocal", y, {x}, [y = SavedTensor(y)](Tensor dy, Gradients& dx) {
    dx.add(0, core::neg(core::mul(dy, core::square(y.get()))));
  });
}

Variable relu(const Variable& x) {
  Tensor y = core::relu(x.data());
  return record("relu", y, {x}, [y = SavedTensor(y)](Tensor dy, Gradients& dx) {
    dx.add(0, core::relu_backward(std::move(dy), y.get()));
  });
}

Variable sigmoid(const Variable& x) {
  Tensor y = core::sigmoid(x.data());
  return record("sigmoid", y, {x}, [y = SavedTensor(y)](Tensor dy, Gradients& dx) {
    dx.add(0, core::sigmoid_backward(std::move(dy), y.get()));
  });
}

Variable tanh(const Variable& x) {
  Tensor y = core::tanh(x.data());
  return record("tanh", y, {x}, [y = SavedTensor(y)](Tensor dy, Gradients& dx) {
    dx.add(0, core::tanh_backward(std::move(dy), y.get()));
  });
}

Variable pow(const Variable& x, double exponent) {
  return record("pow", core::pow_scalar(x.data(), exponent), {x},
                [x = SavedTensor(x.data()), exponent](Tensor dy, Gradients& dx) {
                  if (exponent == 0) return dx.add(0, Tensor::zeros_like(dy));
                  dx.add(0, core::mul_scalar(core::mul(dy, core::pow_scalar(x.get(), exponent - 1)), exponent));
                });
}

Variable clamp(const Variable& x, double low, double high) {
  return record("clamp", core::clamp(x.data(), low, high), {x},
                [x = SavedTensor(x.data()), low, high](Tensor dy, Gradients& dx) {
                  dx.add(0, core::clamp_backward(std::move(dy), x.get(), low, high));
                });
}

Variable cast(const Variable& x, DType dtype) {
  if (dtype == x.dtype()) return x;
  if (!core::is_floating(dtype)) core::fail("cast: {} is not a floating dtype; cast the tensor instead", name(dtype));
  return record("cast", x.data().to(dtype), {x},
                [from = x.dtype()](Tensor dy, Gradients& dx) { dx.add(0, dy.to(from)); });
}

}  // namespace tandem::autograd
