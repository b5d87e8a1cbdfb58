#include "tandem/nn/dropout.h"

namespace tandem::nn {
namespace {
// A stream's number is below 2^16, and data/ draws with those from 0xff00 on.
constexpr std::uint32_t kMaxCalls = 1 << 5;            // of one module in a forward
constexpr std::uint32_t kMaxOps = 0xff00 / kMaxCalls;  // modules in a model
}  // namespace

Dropout::Dropout(double p) { set_p(p); }

void Dropout::set_p(double p) {
  if (!(p >= 0 && p <= 1)) core::fail("dropout: probability {} is not between 0 and 1", p);
  p_ = p;
}

void Dropout::random_context_changed(const core::RandomContext& context, std::uint32_t op) {
  if (op >= kMaxOps) core::fail("dropout: module number {}, at most {} modules can draw", op, kMaxOps);
  context_ = context;
  op_ = op;
  calls_ = 0;
}

Dropout::Draw Dropout::next_draw() {
  if (!is_training() || p_ == 0) return {};
  core::RandomContext context = context_;
  context.step += calls_ / kMaxCalls;  // only without a new context for many forwards
  const std::uint32_t call = calls_++ % kMaxCalls;
  return {p_, context.stream(op_ * kMaxCalls + call)};
}

Variable Dropout::forward(const Variable& x) {
  const Draw draw = next_draw();
  return draw.p == 0 ? x : autograd::dropout(x, draw.p, draw.stream);
}

}  // namespace tandem::nn
