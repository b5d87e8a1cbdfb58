#include "tandem/distributed/store.h"

namespace tandem::distributed {

bool Store::set_at_end(const std::string&, const std::optional<std::string>&) { return false; }

}  // namespace tandem::distributed
