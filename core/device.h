// Where a tensor's memory lies. A kernel for a device is a function in that device's namespace (core/ops/dispatch.h).
#pragma once

#include <cstdint>
#include <string>

namespace tandem::core {

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int16_t index = 0;

  bool operator==(const Device&) const = default;
  /// "cpu", "cuda:1".
  std::string str() const { return type == DeviceType::cpu ? "cpu" : "cuda:" + std::to_string(index); }
};

inline constexpr Device kCpu{};

}  // namespace tandem::core
