// The JSON header of a safetensors file: from text to checked entries. For safetensors.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/core/files/safetensors.h"
#include "tandem/core/tensor.h"

namespace tandem::core {

/// One tensor: bytes [begin, end) of the data.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in order of their bytes
  Metadata metadata;
};

/// Where the header begins in the file: behind its length.
inline constexpr std::uint64_t kSafetensorsHeaderStart = 8;

/// Checks everything that can be known without looking at the data, of which there are `data_bytes`.
/// `path` is for messages only.
SafetensorsHeader parse_safetensors_header(const std::filesystem::path& path, std::string_view text,
                                           std::uint64_t data_bytes);

/// "F32", "BOOL".
std::string_view safetensors_name(DType dtype);

/// In double quotes, on one line, shortened where long: names in files may hold anything.
std::string quoted_name(std::string_view name);

}  // namespace tandem::core
