// IDX files, the format of MNIST and Fashion-MNIST: bytes with their dimensions, plain or compressed by gzip.
//
// The file: two zero bytes, the element type (0x08: uint8), the number of dimensions, each dimension as a big-endian
// 32-bit number, then the elements, row-major. Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database", "File
// formats".
#pragma once

#include <filesystem>

#include "tandem/core/tensor.h"

namespace tandem::data {

/// A uint8 tensor of the file's shape. Throws Error with path and byte offset where the file is missing, is no IDX file
/// of uint8 with `rank` dimensions, ends early or goes on behind its last element, or its gzip data is damaged. Offsets
/// in a compressed file count uncompressed bytes. Never takes more memory than the file could fill.
core::Tensor load_idx(const std::filesystem::path& path, int rank);

/// Images [N, H, W], labels [N].
inline core::Tensor load_idx_images(const std::filesystem::path& path) { return load_idx(path, 3); }
inline core::Tensor load_idx_labels(const std::filesystem::path& path) { return load_idx(path, 1); }

}  // namespace tandem::data
