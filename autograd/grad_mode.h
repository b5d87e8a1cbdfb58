// Switching the tape off for a while, on the calling thread.
#pragma once

namespace tandem::autograd {

/// False inside a NoGradGuard: operators then record nothing and save nothing.
bool grad_enabled();

/// `{ NoGradGuard no_grad; evaluate(model); }`. Nests.
class NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool previous_;
};

}  // namespace tandem::autograd
