// gloo::allreduce, for comparison.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tandem/distributed/world.h"

namespace tandem::bench {

class GlooPeer {
 public:
  /// Collective. Connects over `address`, this machine's, with Gloo's own rendezvous.
  GlooPeer(distributed::World& world, const std::string& address);
  ~GlooPeer();
  GlooPeer(const GlooPeer&) = delete;
  GlooPeer& operator=(const GlooPeer&) = delete;

  void all_reduce(float* data, std::size_t numel);
  void all_reduce(double* data, std::size_t numel);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tandem::bench
