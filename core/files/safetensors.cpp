#include "tandem/core/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "tandem/core/files/file.h"
#include "tandem/core/files/safetensors_header.h"

namespace tandem::core {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// The format's own limit: no real header comes near it.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// Files of torch.save, .pth, .pt or .bin by name, are zip archives, and were pickles before PyTorch 1.6. What they
// begin with is no length that could fit; the length of a safetensors header may well begin with a pickle's two bytes:
// 640.
void check_is_no_pickle(const InputFile& file) {
  std::array<char, 4> bytes{};
  file.read(0, bytes.data(), bytes.size());
  const std::string_view magic(bytes.data(), bytes.size());
  const bool is_zip = magic == "PK\x03\x04";
  if (!is_zip && !(magic[0] == '\x80' && magic[1] >= 2 && magic[1] <= 5)) return;
  const std::string path = file.path().string();
  const std::string converted = std::filesystem::path(file.path()).replace_extension("safetensors").string();
  fail(
      "{}: is a {}, as torch.save writes, needed a safetensors file; this converts it: python3 -c \"import torch; from "
      "safetensors.torch import save_file; save_file({{name: tensor.contiguous().clone() for name, tensor in "
      "torch.load('{}', map_location='cpu', weights_only=True).items()}}, '{}')\"",
      path, is_zip ? "zip archive" : "pickle", path, converted);
}

std::string read_header_text(const InputFile& file) {
  if (file.size() < kSafetensorsHeaderStart)
    fail_at(file.path(), file.size(), "the file ends within the 8 bytes of the header's length");
  std::uint64_t length = 0;
  file.read(0, &length, sizeof(length));
  if (length > file.size() - kSafetensorsHeaderStart) check_is_no_pickle(file);
  if (length > file.size() - kSafetensorsHeaderStart)
    fail_at(file.path(), 0,
            "no safetensors file, or cut short: a header of {} bytes does not fit into a file of {} bytes", length,
            file.size());
  if (length > kMaxHeaderBytes)
    fail_at(file.path(), 0, "a header of {} bytes is more than the format's {}", length, kMaxHeaderBytes);
  std::string text(length, '\0');
  file.read(kSafetensorsHeaderStart, text.data(), text.size());
  return text;
}

// Any byte but 0 and 1 is no value of C++'s bool.
void check_booleans(const InputFile& file, const SafetensorsEntry& entry, std::uint64_t start, const Tensor& tensor) {
  const auto* bytes = static_cast<const std::uint8_t*>(tensor.raw_data());
  const auto* end = bytes + tensor.bytes();
  const auto* wrong = std::find_if(bytes, end, [](std::uint8_t byte) { return byte > 1; });
  if (wrong != end)
    fail_at(file.path(), start + static_cast<std::uint64_t>(wrong - bytes), "tensor {}: {} is not a BOOL (0 or 1)",
            quoted_name(entry.name), *wrong);
}

void check_saveable(const std::filesystem::path& path, const StateDict& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    const auto reject = [&path, &shown = name](const char* reason) {
      fail("{}: tensor {} cannot be saved: {}", path.string(), quoted_name(shown), reason);
    };
    if (name == "__metadata__") reject("the format reserves the name");
    if (!names.insert(name).second) reject("the name is given twice");
    if (!tensor.defined()) reject("it is undefined");
  }
}

std::string json_string(const std::filesystem::path& path, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail("{}: {} cannot be saved: it is not valid UTF-8", path.string(), quoted_name(text));
  }
}

std::string header_text(const std::filesystem::path& path, const StateDict& tensors, const Metadata& metadata) {
  std::vector<std::string> items;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) pairs.push_back(json_string(path, key) + ":" + json_string(path, value));
    items.push_back(fmt::format(R"("__metadata__":{{{}}})", fmt::join(pairs, ",")));
  }
  std::size_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t end = begin + tensor.bytes();
    items.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", json_string(path, name),
                                safetensors_name(tensor.dtype()), tensor.shape().str(), begin, end));
    begin = end;
  }
  std::string text = fmt::format("{{{}}}", fmt::join(items, ","));
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

TensorMap load_safetensors(const std::filesystem::path& path, Metadata* metadata) {
  const InputFile file(path);
  const std::string text = read_header_text(file);
  const std::uint64_t data_start = kSafetensorsHeaderStart + text.size();
  SafetensorsHeader header = parse_safetensors_header(path, text, file.size() - data_start);
  TensorMap tensors;
  for (const SafetensorsEntry& entry : header.entries) {
    Tensor tensor = Tensor::empty(entry.shape, {.dtype = entry.dtype, .device = kCpu});
    file.read(data_start + entry.begin, tensor.mutable_raw_data(), tensor.bytes());
    if (entry.dtype == DType::boolean) check_booleans(file, entry, data_start + entry.begin, tensor);
    tensors.emplace(entry.name, std::move(tensor));
  }
  if (metadata) *metadata = std::move(header.metadata);
  return tensors;
}

std::vector<std::string> safetensors_names(const std::filesystem::path& path) {
  const InputFile file(path);
  const std::string text = read_header_text(file);
  std::vector<std::string> names;
  for (SafetensorsEntry& entry :
       parse_safetensors_header(path, text, file.size() - kSafetensorsHeaderStart - text.size()).entries)
    names.push_back(std::move(entry.name));
  return names;
}

void save_safetensors(const std::filesystem::path& path, const StateDict& tensors, const Metadata& metadata) {
  check_saveable(path, tensors);
  StateDict placed = tensors;
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) {
    return item_size(a.second.dtype()) > item_size(b.second.dtype());
  });
  const std::string text = header_text(path, placed, metadata);
  AtomicFile file(path);
  const std::uint64_t length = text.size();
  file.write(&length, sizeof(length));
  file.write(text.data(), text.size());
  for (const auto& [name, tensor] : placed) {
    const Tensor dense = tensor.to(kCpu).contiguous();
    file.write(dense.raw_data(), dense.bytes());
  }
  file.commit();
}

}  // namespace tandem::core
