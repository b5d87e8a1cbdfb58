#include "tools/train/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "tandem/distributed/error.h"
#include "tools/train/command_line.h"

namespace tandem::train {
namespace {

constexpr int kFailed = 1, kWrongUsage = 2, kPeerFailed = 3, kSignal = 128;

// The last thing that is printed, and always one line.
int fail(int code, std::string cause) {
  std::replace(cause.begin(), cause.end(), '\n', ' ');
  std::fflush(stdout);
  const std::string line = fmt::format("train: error: {}\n", cause);
  std::fputs(line.c_str(), stderr);  // unlike fmt::print it does not throw where stderr is closed
  return code;
}

}  // namespace

int train_main(int argc, char** argv, const RunHooks& hooks) {
  try {
    const auto settings = parse_command_line(argc, argv);
    if (!settings) return 0;
    const int signal = run(*settings, hooks);
    if (signal == 0) return 0;
    return fail(kSignal + signal, fmt::format("ended by signal {} ({})", signal, strsignal(signal)));
  } catch (const UsageError& error) {
    return fail(kWrongUsage, error.what());
  } catch (const distributed::PeerError& error) {
    return fail(kPeerFailed, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kFailed, "out of memory");
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}

}  // namespace tandem::train
