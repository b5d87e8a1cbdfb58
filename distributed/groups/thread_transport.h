// ThreadTransport: messages between threads of one process, copied once, from the sender's memory to the receiver's.
#pragma once

#include <memory>

#include "tandem/distributed/groups/transport.h"

namespace tandem::distributed {

/// What the transports of one group share.
class ThreadMailboxes;
std::shared_ptr<ThreadMailboxes> make_thread_mailboxes(int size);

std::unique_ptr<Transport> make_thread_transport(std::shared_ptr<ThreadMailboxes> mailboxes, int rank);

}  // namespace tandem::distributed
