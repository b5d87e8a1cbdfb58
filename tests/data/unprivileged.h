// Root may read everything; where a test is about permissions, it is nobody for a while.
#pragma once

#include <unistd.h>

#include <stdexcept>

namespace tandem::data {

class Unprivileged {
 public:
  Unprivileged() {
    if (was_root_ && ::seteuid(kNobody) != 0) throw std::runtime_error("cannot become nobody");
  }
  ~Unprivileged() {
    if (was_root_ && ::seteuid(0) != 0) ::_exit(1);
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  bool was_root_ = ::geteuid() == 0;
};

}  // namespace tandem::data
