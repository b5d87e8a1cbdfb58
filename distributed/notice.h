// What a user is told while a run goes on.
#pragma once

#include <string>

namespace tandem::distributed {

/// A line on stderr. Unlike fmt::print it does not throw if stderr takes nothing (its reader has gone, the disk is
/// full): a run must not end for a notice.
void print_notice(const std::string& line);

}  // namespace tandem::distributed
