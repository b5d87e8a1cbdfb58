// GlooTransport: messages over Gloo's unbound buffers.
//
// Gloo sends a message only when it has the other side's notice that a receive is posted, and ends the process when a
// message is longer than its receive. Hence two ways:
//
//   short messages  go to receives of a fixed length that stay posted between collectives, so that a message needs one
//                   trip and no notice. Each begins with the collective's signature, which the receiver compares.
//   long messages   go straight to their place. Their slot (Gloo's word for a tag) holds their length, so that only
//   equals
//                   meet. The first one to a peer in a collective follows a short message with the signature alone.
#pragma once

#include <memory>

#include "tandem/distributed/groups/gloo_mesh.h"
#include "tandem/distributed/groups/transport.h"

namespace tandem::distributed {

/// `timeout`: of collectives, roughly; a wait ends at most a sixteenth of it after its deadline.
std::unique_ptr<Transport> make_gloo_transport(std::shared_ptr<GlooMesh> mesh, Milliseconds timeout);

}  // namespace tandem::distributed
