// The memory of the guarded device. Each block has two addresses: the one that a tensor knows, which nobody may read or
// write, and the one that kernels are given. They lie a fixed distance apart.
#pragma once

#include <cstddef>

namespace tandem::core::guarded {

/// `bytes` bytes of zeros, aligned to kAlignment, at their forbidden address; null if there is no room. Safe to use
/// from several threads.
void* take(std::size_t bytes);
/// What take(bytes) returned.
void give_back(void* block, std::size_t bytes) noexcept;
/// Where kernels find what lies at the forbidden address `at`.
void* as_kernels_see(void* at);

}  // namespace tandem::core::guarded
