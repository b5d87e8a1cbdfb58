// The program `launch`. Start reading at launcher.cpp, then attempt.cpp: the life of the ranks, and attempt_stop.cpp.
#include <exception>

#include "tandem/core/process/standard_streams.h"
#include "tools/exit.h"
#include "tools/launch/launcher.h"

int main(int argc, char** argv) {
  using namespace tandem;
  core::open_standard_streams();
  const auto fail = [](int code, const std::exception& error) { return fail_program("launch", code, error.what()); };
  try {
    const auto options = launch::parse_command_line(argc, argv);
    return end_program("launch", options ? launch::launch(*options) : 0);
  } catch (const UsageError& error) {
    return fail(kWrongUsage, error);
  } catch (const std::exception& error) {
    return fail(kFailed, error);
  }
}
