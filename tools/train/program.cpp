#include "tools/train/program.h"

#include <exception>
#include <new>

#include "tandem/core/process/standard_streams.h"
#include "tandem/distributed/error.h"
#include "tools/exit.h"
#include "tools/train/restart.h"
#include "tools/train/settings/command_line.h"

namespace tandem::train {

int train_main(int argc, char** argv, const RunHooks& hooks) {
  core::open_standard_streams();
  const auto fail = [](int code, const std::string& cause) { return fail_program("train", code, cause); };
  try {
    StopSignal stop;  // before any library starts a thread
    auto settings = parse_command_line(argc, argv);
    if (!settings) return end_program("train");
    resume_if_restarted(*settings);
    const RunEnd end = run(*settings, stop, hooks);
    return end.code == 0 ? end_program("train") : fail(end.code, end.cause);
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
