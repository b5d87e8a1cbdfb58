// Where a tensor's memory lies. How an operator finds its kernels for a device is in core/ops/dispatch.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::core {

/// guarded: for tests. The CPU's kernels compute in memory that nothing else in the process can touch, so that code
/// which takes the host's memory for granted crashes on every machine, not first on a GPU (core/guarded/).
enum class DeviceType : std::uint8_t { cpu, guarded, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int16_t index = 0;

  bool operator==(const Device&) const = default;
  /// Its memory is the host's: Tensor::data() may be asked for.
  bool is_host() const { return type == DeviceType::cpu; }
  /// "cpu", "guarded", "cuda:1".
  std::string str() const;
};

inline constexpr Device kCpu{};
inline constexpr Device kGuarded{.type = DeviceType::guarded};

/// The inverse of str(); "cuda" is "cuda:0". Throws Error for other names.
Device parse_device(std::string_view name);

/// Where tensors are made if nobody says where: the CPU, unless the program has chosen another device at its beginning,
/// before it makes tensors and threads.
Device default_device();
void set_default_device(Device device);

}  // namespace tandem::core
