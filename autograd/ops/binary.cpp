#include "tandem/core/ops/binary.h"

#include "tandem/autograd/node.h"
#include "tandem/autograd/ops.h"
#include "tandem/core/ops/unary.h"

// Rules give gradients of the result's shape; the engine sums them back over what was broadcast.
namespace tandem::autograd {
namespace {

// The gradient of a where it is chosen over b, half of it where they are equal.
Tensor choice(const Tensor& dy, const Tensor& strictly_chosen, const Tensor& equal) {
  const Tensor share = core::add(strictly_chosen.to(dy.dtype()), core::mul_scalar(equal.to(dy.dtype()), 0.5));
  return core::mul(dy, share);
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  return record("add", core::add(a.data(), b.data()), {a, b}, [](Tensor dy, Gradients& dx) {
    dx.add(0, dy);
    dx.add(1, std::move(dy));
  });
}

Variable sub(const Variable& a, const Variable& b) {
  return record("sub", core::sub(a.data(), b.data()), {a, b}, [](Tensor dy, Gradients& dx) {
    if (dx.needs(1)) dx.add(1, core::neg(dy));
    dx.add(0, std::move(dy));
  });
}

Variable mul(const Variable& a, const Variable& b) {
  return record("mul", core::mul(a.data(), b.data()), {a, b},
                [a = saved_for(b, a), b = saved_for(a, b)](Tensor dy, Gradients& dx) {
                  if (dx.needs(0)) dx.add(0, core::mul(dy, b.get()));
                  if (dx.needs(1)) dx.add(1, core::mul(dy, a.get()));
                });
}

Variable div(const Variable& a, const Variable& b) {
  Tensor y = core::div(a.data(), b.data());
  return record("div", y, {a, b}, [b = SavedTensor(b.data()), y = saved_for(b, y)](Tensor dy, Gradients& dx) {
    const Tensor da = core::div(dy, b.get());
    if (dx.needs(1)) dx.add(1, core::neg(core::mul(da, y.get())));
    dx.add(0, da);
  });
}

Variable maximum(const Variable& a, const Variable& b) {
  return record("maximum", core::maximum(a.data(), b.data()), {a, b},
                [a = SavedTensor(a.data()), b = SavedTensor(b.data())](Tensor dy, Gradients& dx) {
                  const Tensor equal = core::equal(a.get(), b.get());
                  if (dx.needs(0)) dx.add(0, choice(dy, core::greater(a.get(), b.get()), equal));
                  if (dx.needs(1)) dx.add(1, choice(dy, core::less(a.get(), b.get()), equal));
                });
}

Variable minimum(const Variable& a, const Variable& b) {
  return record("minimum", core::minimum(a.data(), b.data()), {a, b},
                [a = SavedTensor(a.data()), b = SavedTensor(b.data())](Tensor dy, Gradients& dx) {
                  const Tensor equal = core::equal(a.get(), b.get());
                  if (dx.needs(0)) dx.add(0, choice(dy, core::less(a.get(), b.get()), equal));
                  if (dx.needs(1)) dx.add(1, choice(dy, core::greater(a.get(), b.get()), equal));
                });
}

Variable add_scalar(const Variable& x, double value) {
  return record("add_scalar", core::add_scalar(x.data(), value), {x},
                [](Tensor dy, Gradients& dx) { dx.add(0, std::move(dy)); });
}

Variable mul_scalar(const Variable& x, double value) {
  return record("mul_scalar", core::mul_scalar(x.data(), value), {x},
                [value](Tensor dy, Gradients& dx) { dx.add(0, core::mul_scalar(dy, value)); });
}

}  // namespace tandem::autograd
