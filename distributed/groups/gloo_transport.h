// GlooTransport: messages over Gloo's buffers.
//
// Gloo reads a message into the buffer that its receiver has registered under the message's slot, and ends the process
// where that is too short. Its unbound buffers tell the sender by a notice on the same connection, which costs a call
// for each message and the lock that gloo_mesh.h describes; so we use the plain ones and keep the books ourselves:
//
//   short messages  go to a ring of places that stays registered. Each begins with the collective's signature, which
//                   the receiver compares. After a few the receiver gives credit for as many more.
//   long messages   go straight to where they belong. The receiver registers the memory and sends a notice with the
//                   length, without which nothing is sent. The first one to a peer in a collective follows a short
//                   message with the signature alone.
//
// Credits and notices go with what their sender sends, so that a connection carries bytes in one direction only.
#pragma once

#include <memory>

#include "tandem/distributed/groups/gloo_mesh.h"
#include "tandem/distributed/groups/transport.h"

namespace tandem::distributed {

/// `timeout`: of collectives, roughly; a wait ends at most a sixteenth of it after its deadline.
std::unique_ptr<Transport> make_gloo_transport(std::shared_ptr<GlooMesh> mesh, Milliseconds timeout);

}  // namespace tandem::distributed
