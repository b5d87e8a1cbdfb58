// The main function of the test programs. --device=guarded runs all tests on the guarded device (core/device.h): each
// tensor that a test makes without naming a device lies there.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <string_view>

#include "tandem/core/device.h"
#include "tandem/core/error.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kDevice = "--device=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kDevice)) {
      std::cerr << "unknown argument " << argument << ", known are --device=cpu, --device=guarded and GoogleTest's\n";
      return 2;
    }
    try {
      tandem::core::set_default_device(tandem::core::parse_device(argument.substr(kDevice.size())));
    } catch (const tandem::core::Error& error) {
      std::cerr << error.what() << '\n';
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
