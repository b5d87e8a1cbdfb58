// Groups over TCP: Gloo's rendezvous, transport and unbound buffers, under our own plan of steps.
#pragma once

#include <memory>
#include <string>

#include "tandem/distributed/groups/group_options.h"
#include "tandem/distributed/process_group.h"

namespace tandem::distributed {

struct GlooEndpoint {
  int rank = 0;
  int size = 1;
  std::shared_ptr<Store> store;  ///< shared by the ranks; the group keeps to keys under its own name
  std::string address;           ///< of this machine, literal: where other ranks can reach this one
};

/// Collective. Throws PeerError naming the ranks that did not come within the timeout.
std::shared_ptr<ProcessGroup> make_gloo_group(const std::string& name, const GlooEndpoint& endpoint,
                                              const GroupOptions& options);

}  // namespace tandem::distributed
