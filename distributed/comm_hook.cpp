#include "tandem/distributed/comm_hook.h"

#include <cmath>

#include "tandem/core/ops/binary.h"

namespace tandem::distributed {
namespace {

using core::DType;

template <class T>
std::int64_t first_not_finite(const Tensor& tensor) {
  const T* values = tensor.data<T>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    if (!std::isfinite(static_cast<float>(values[i]))) return i;
  return -1;
}

/// Of a bfloat16 or float16 tensor; none: -1.
std::int64_t first_not_finite(const Tensor& sent) {
  const Tensor tensor = sent.to(core::kCpu);
  return tensor.dtype() == DType::float16 ? first_not_finite<core::float16>(tensor)
                                          : first_not_finite<core::bfloat16>(tensor);
}

}  // namespace

// The one place where gradients are divided: before the sum.
WorkPtr AllReduceHook::launch(GradientBucket bucket, ProcessGroup& group) {
  return group.all_reduce(bucket.flat, {.op = ReduceOp::sum, .scale = 1.0 / group.size(), .label = bucket.label});
}

CastHook::CastHook(DType wire) : wire_(wire) {
  if (wire != DType::bfloat16 && wire != DType::float16)
    core::fail("comm hook: gradients travel as bfloat16 or float16, not as {}", core::name(wire));
}

std::string CastHook::name() const { return wire_ == DType::bfloat16 ? "bf16" : "fp16"; }

WorkPtr CastHook::launch(GradientBucket bucket, ProcessGroup& group) {
  if (bucket.flat.dtype() != DType::float32 && bucket.flat.dtype() != DType::float64)
    core::fail("comm hook {}: {} holds {} gradients, needed float32 or float64", name(), bucket.label,
               core::name(bucket.flat.dtype()));
  const Tensor share =
      core::mul(bucket.flat, Tensor::scalar(1.0 / group.size(), bucket.flat.dtype(), bucket.flat.device()));
  Tensor& sent = sent_[bucket.index] = share.to(wire_);
  if (const std::int64_t at = first_not_finite(sent); at >= 0)
    core::fail("comm hook {}: {}: a gradient of {:g}, divided by {} ranks, is too large for {}", name(), bucket.label,
               bucket.flat.slice(0, at, at + 1).item(), group.size(), core::name(wire_));
  return group.all_reduce(sent, {.op = ReduceOp::sum, .label = bucket.label + " as " + name()});
}

void CastHook::complete(GradientBucket bucket) {
  const Tensor& sum = sent_[bucket.index];
  if (first_not_finite(sum) >= 0)
    core::fail("comm hook {}: {}: an averaged gradient is too large for {}", name(), bucket.label, core::name(wire_));
  bucket.flat.copy_from(sum);
}

std::unique_ptr<CommHook> make_comm_hook(const std::string& name) {
  if (name == "none") return std::make_unique<AllReduceHook>();
  if (name == "bf16") return std::make_unique<CastHook>(DType::bfloat16);
  if (name == "fp16") return std::make_unique<CastHook>(DType::float16);
  core::fail("comm hook '{}': there are none, bf16 and fp16", name);
}

}  // namespace tandem::distributed
