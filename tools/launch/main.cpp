// The program `launch`. Start reading at launcher.cpp, then attempt.cpp: the life of the ranks.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "tools/launch/launcher.h"

namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

// The last thing that is printed, and always one line.
int fail(int code, std::string cause) {
  std::replace(cause.begin(), cause.end(), '\n', ' ');
  std::fflush(stdout);
  const std::string line = fmt::format("launch: error: {}\n", cause);
  std::fputs(line.c_str(), stderr);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = tandem::launch::parse_command_line(argc, argv);
    return options ? tandem::launch::launch(*options) : 0;
  } catch (const tandem::launch::UsageError& error) {
    return fail(kWrongUsage, error.what());
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}
