// Sum, minimum, maximum and product of all dtypes.
#include "tandem/distributed/groups/reduce_kernels.h"

#include <type_traits>

#include "tandem/core/wrapping.h"

namespace tandem::distributed {

namespace {

using core::compute_t;

template <ReduceOp kOp, class C>
inline C combine(C left, C right) {
  if constexpr (kOp == ReduceOp::sum) {
    return core::wrapping_add(left, right);
  } else if constexpr (kOp == ReduceOp::product) {
    return core::wrapping_mul(left, right);
  } else if constexpr (kOp == ReduceOp::min) {
    return left < right || left != left ? left : right;
  } else {
    return left > right || left != left ? left : right;
  }
}

template <class T>
inline T scaled(T value, compute_t<T> scale) {
  return static_cast<T>(static_cast<compute_t<T>>(value) * scale);
}

// Calls f with the element type; booleans are bytes of 0 and 1.
template <class F>
void visit(core::DType dtype, F&& f) {
  core::visit_all(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      f.template operator()<std::uint8_t>();
    } else {
      f.template operator()<T>();
    }
  });
}

template <class F>
void visit_op(ReduceOp op, F&& f) {
  switch (op) {
    case ReduceOp::sum: return f.template operator()<ReduceOp::sum>();
    case ReduceOp::min: return f.template operator()<ReduceOp::min>();
    case ReduceOp::max: return f.template operator()<ReduceOp::max>();
    case ReduceOp::product: return f.template operator()<ReduceOp::product>();
  }
}

// `own` may not overlap `received`, which the compiler is told.
template <ReduceOp kOp, class T>
void reduce_own(T* __restrict own, const T* __restrict received, std::int64_t numel) {
  using C = compute_t<T>;
  for (std::int64_t i = 0; i < numel; ++i) own[i] = static_cast<T>(combine<kOp>(C(received[i]), C(own[i])));
}

template <ReduceOp kOp, class T>
void reduce_scaled_own(T* __restrict own, const T* __restrict received, compute_t<T> scale, std::int64_t numel) {
  using C = compute_t<T>;
  for (std::int64_t i = 0; i < numel; ++i)
    own[i] = static_cast<T>(combine<kOp>(C(received[i]), C(scaled(own[i], scale))));
}

}  // namespace

void scale_in_place(core::DType dtype, void* own, double scale, std::int64_t numel) {
  if (scale == 1) return;
  visit(dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) {
      T* values = static_cast<T*>(own);
      const auto factor = static_cast<compute_t<T>>(scale);
      for (std::int64_t i = 0; i < numel; ++i) values[i] = scaled(values[i], factor);
    }
  });
}

void reduce_into_own(ReduceOp op, core::DType dtype, void* own, const void* received, double scale,
                     std::int64_t numel) {
  visit(dtype, [&]<class T>() {
    visit_op(op, [&]<ReduceOp kOp>() {
      if constexpr (!std::is_integral_v<T>) {
        const auto factor = static_cast<compute_t<T>>(scale);
        if (scale != 1)
          return reduce_scaled_own<kOp>(static_cast<T*>(own), static_cast<const T*>(received), factor, numel);
      }
      reduce_own<kOp>(static_cast<T*>(own), static_cast<const T*>(received), numel);
    });
  });
}

void reduce_pair(ReduceOp op, core::DType dtype, void* out, const void* left, const void* right, std::int64_t numel) {
  visit(dtype, [&]<class T>() {
    using C = compute_t<T>;
    visit_op(op, [&]<ReduceOp kOp>() {
      T* result = static_cast<T*>(out);
      const T* first = static_cast<const T*>(left);
      const T* second = static_cast<const T*>(right);
      for (std::int64_t i = 0; i < numel; ++i) result[i] = static_cast<T>(combine<kOp>(C(first[i]), C(second[i])));
    });
  });
}

const char* name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: return "product";
  }
  return "?";
}

}  // namespace tandem::distributed
