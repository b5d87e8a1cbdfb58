// Bytes that were moved although a result could have been written in place: what "no copies" is measured with.
#pragma once

#include <cstdint>

namespace tandem::core {

struct Traffic {
  std::int64_t copied = 0;     ///< results that had to be copied to where they were wanted
  std::int64_t reordered = 0;  ///< results that a kernel made in a layout of its own, and wrote to their place from it
};

/// Of this thread, ever growing. Ranks that are threads each have their own.
inline thread_local Traffic traffic;

}  // namespace tandem::core
