// Named tensors in one file, in the safetensors format, which PyTorch and Hugging Face's tools read and write.
//
// The file: 8 bytes, the header's length N, little-endian; N bytes of JSON, padded with spaces; then the tensors'
// bytes, row-major, without gaps. The JSON maps each name to {"dtype", "shape", "data_offsets": [begin, end]}, counted
// from the header's end; "__metadata__" maps strings to strings. Source: github.com/huggingface/safetensors, README,
// "Format".
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tandem/core/state_dict.h"
#include "tandem/core/tensor.h"

namespace tandem::core {

using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

/// All tensors of a file, each with memory of its own; `metadata`, where given, receives the file's.
/// Nothing in the file is trusted. Throws Error with path, byte offset and tensor where the header is not what the
/// format says, a dtype is none of ours, a shape has more than kMaxRank dimensions or does not fill its bytes, or
/// ranges of bytes do not cover the data exactly once.
TensorMap load_safetensors(const std::filesystem::path& path, Metadata* metadata = nullptr);

/// Names of a file's tensors in the order of their bytes, from its header alone. Throws as load_safetensors().
std::vector<std::string> safetensors_names(const std::filesystem::path& path);

/// Writes the file whole or not at all. Any strides. Tensors lie in the file by element size, widest first, so that
/// every reader finds them aligned; within a size in the order given. Throws Error for undefined tensors, names that
/// are given twice, reserved ("__metadata__") or not UTF-8, and where the file cannot be written.
void save_safetensors(const std::filesystem::path& path, const StateDict& tensors, const Metadata& metadata = {});

}  // namespace tandem::core
