#include "tandem/distributed/served_store.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "tandem/distributed/network/deadline.h"

namespace tandem::distributed {
namespace {

constexpr Milliseconds kLinger{1500};  // three beats: time to read the first failure before the store ends

}  // namespace

ServedStore::~ServedStore() {
  const Deadline deadline(kLinger);
  while (lingers_ && server_.clients() > 0 && !deadline.has_passed()) std::this_thread::sleep_for(Milliseconds(10));
}

std::string ServedStore::describe() const {
  const std::vector<Address> addresses = server_.addresses();
  std::string text;
  for (const Address& address : addresses) text += (text.empty() ? "" : ", ") + address.str();
  if (std::all_of(addresses.begin(), addresses.end(), [](const Address& a) { return is_loopback(a); }))
    text +=
        " (which no other machine reaches; if ranks run on others, set MASTER_ADDR on all ranks to the name or address "
        "that they know this machine by)";
  return text;
}

}  // namespace tandem::distributed
