#include "tools/train/program.h"

#include <cstring>
#include <exception>
#include <new>

#include "tandem/distributed/error.h"
#include "tools/exit.h"
#include "tools/train/command_line.h"

namespace tandem::train {

int train_main(int argc, char** argv, const RunHooks& hooks) {
  const auto fail = [](int code, const std::string& cause) { return fail_program("train", code, cause); };
  try {
    const auto settings = parse_command_line(argc, argv);
    if (!settings) return end_program("train");
    const int signal = run(*settings, hooks);
    if (signal == 0) return end_program("train");
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
