// Signatures in words.
#include "tandem/distributed/groups/transport.h"

#include <fmt/format.h>

#include "tandem/distributed/groups/reduce_kernels.h"

namespace tandem::distributed {

std::string Signature::str() const {
  using CollectiveKind = Collective::Kind;
  const std::string title = fmt::format("{} {}", name(kind), sequence);
  switch (kind) {
    case CollectiveKind::barrier: return title;
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      return fmt::format("{} ({}, {}, {} bytes)", title, name(op), core::name(dtype), bytes);
    case CollectiveKind::broadcast:
      return fmt::format("{} ({}, {} bytes, from rank {})", title, core::name(dtype), bytes, root);
    default: return fmt::format("{} ({}, {} bytes)", title, core::name(dtype), bytes);
  }
}

}  // namespace tandem::distributed
