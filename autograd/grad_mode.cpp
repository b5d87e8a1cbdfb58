#include "tandem/autograd/grad_mode.h"

namespace tandem::autograd {
namespace {
thread_local bool enabled = true;
}

bool grad_enabled() { return enabled; }

NoGradGuard::NoGradGuard() : previous_(enabled) { enabled = false; }
NoGradGuard::~NoGradGuard() { enabled = previous_; }

}  // namespace tandem::autograd
