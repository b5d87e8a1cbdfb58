// `train`, but one rank fails at a chosen moment:
//
//   FAULT_RANK=1  FAULT_STEP=3  FAULT_AT=forward|backward|all_reduce|leaving  FAULT_DO=kill|stop|exit|hang
//
// forward: once it is done, before backward; backward: when the first gradient is complete; all_reduce: while the first
// bucket is on its way; leaving: when all is done, before goodbye.
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tandem/autograd/engine.h"
#include "tools/train/program.h"

namespace {

using tandem::autograd::BackwardPass;
using tandem::autograd::Registration;
using tandem::autograd::Variable;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void wait_for_the_end() {
  while (true) pause();
}

void fail() {
  const std::string what = setting("FAULT_DO");
  if (what == "kill") kill(getpid(), SIGKILL);
  if (what == "stop") kill(getpid(), SIGSTOP);
  if (what == "exit") _exit(0);
  wait_for_the_end();
}

class Fault final : public tandem::autograd::BackwardObserver {
 public:
  explicit Fault(tandem::nn::Module& model) {
    const std::vector<Variable> parameters = model.parameters();
    registrations_.push_back(parameters.front().observe_backward(*this));
    // The last registered is the first whose gradient is complete, the one before the last fills its bucket or follows.
    registrations_.push_back(parameters.back().register_post_accumulate_grad_hook([this](const Variable&) {
      if (is_due_ && at_ == "backward") fail();
    }));
    registrations_.push_back(parameters.front().register_post_accumulate_grad_hook([this](const Variable&) {
      if (is_due_ && at_ == "all_reduce") fail();
    }));
  }

 private:
  void backward_begins(BackwardPass&, std::span<const Variable>) override {
    is_due_ = ++step_ == std::stoi(setting("FAULT_STEP"));
    if (is_due_ && at_ == "forward") fail();
  }

  const std::string at_ = setting("FAULT_AT");
  int step_ = 0;
  bool is_due_ = false;
  std::vector<Registration> registrations_;
};

}  // namespace

int main(int argc, char** argv) {
  std::optional<Fault> fault;
  const auto is_mine = [](int rank) { return std::to_string(rank) == setting("FAULT_RANK"); };
  tandem::train::RunHooks hooks;
  hooks.before_training = [&](tandem::nn::Module& model, int rank) {
    if (is_mine(rank) && setting("FAULT_AT") != "leaving") fault.emplace(model);
  };
  hooks.before_leaving = [&](int rank) {
    if (is_mine(rank) && setting("FAULT_AT") == "leaving") fail();
  };
  return tandem::train::train_main(argc, argv, hooks);
}
