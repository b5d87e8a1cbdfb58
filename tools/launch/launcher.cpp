#include "tools/launch/launcher.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "tandem/core/thread_count.h"
#include "tandem/distributed/fields.h"
#include "tools/exit.h"
#include "tools/launch/attempt.h"
#include "tools/launch/orphans.h"

namespace tandem::launch {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};

void make_log_folder(const Options& options) {
  if (!options.log_dir) return;
  std::error_code error;
  std::filesystem::create_directories(*options.log_dir, error);
  if (error) core::fail("--log-dir {}: cannot be made: {}", *options.log_dir, error.message());
}

std::string describe_ranks(const Options& options) {
  if (options.nodes == 1) return std::to_string(options.ranks);
  return fmt::format("{} to {} of {}, node {} of {}", options.first_rank(), options.first_rank() + options.ranks - 1,
                     options.world_size(), options.node_rank, options.nodes);
}

void print_settings(const Options& options, const RunStore& store, Output& output) {
  const auto row = [&](const char* name, const std::string& text) {
    output.write_line(Stream::out, fmt::format("  {:<9} {}", name, text));
  };
  std::string program;
  for (const std::string& argument : options.arguments) program += (program.empty() ? "" : " ") + argument;
  output.write_line(Stream::out, "launch");
  row("program", distributed::one_line(program, kMaxCause));
  row("ranks", describe_ranks(options));
  row("threads", fmt::format("{} each{}, {} cores", core::threads_of_rank(std::nullopt, options.ranks),
                             std::getenv("OMP_NUM_THREADS") ? " (OMP_NUM_THREADS)" : "", core::available_processors()));
  row("store", store.address());
  if (options.max_restarts > 0) row("restarts", fmt::format("at most {}", options.max_restarts));
  if (options.log_dir) row("logs", fmt::format("{}/rankN.log", *options.log_dir));
}

// Returns the verdict of the last attempt.
Verdict run_attempts(const Options& options, std::unique_ptr<RunStore> store, const Surroundings& surroundings) {
  for (int restart = 0;; ++restart) {
    if (!store) store = std::make_unique<RunStore>(options);
    if (restart == 0) print_settings(options, *store, surroundings.output);
    Attempt attempt(options, restart, *store, surroundings);
    Verdict verdict = attempt.run();
    kill_orphans(surroundings.guard.process());
    if (options.nodes > 1) store->wait_for_others();
    store.reset();
    if (verdict.code == 0 || verdict.is_end_wished || restart == options.max_restarts) return verdict;
    const auto say = [&](const std::string& line) { surroundings.output.write_line(Stream::err, "launch: " + line); };
    say(verdict.line);
    say(fmt::format("all ranks are started again: restart {} of {}", restart + 1, options.max_restarts));
  }
}

}  // namespace

int launch(const Options& options) {
  make_log_folder(options);
  Guard guard;
  adopt_orphans();
  if (options.node_rank > 0)
    std::fputs(fmt::format("launch: looks for node 0 on {}\n", *options.master_addr).c_str(), stderr);
  auto store = std::make_unique<RunStore>(options);  // a signal may end this wait: nothing runs yet
  Signals signals;
  Output output(STDOUT_FILENO, STDERR_FILENO);
  Verdict verdict;
  try {
    verdict = run_attempts(options, std::move(store), {guard, signals, output});
  } catch (const core::Error&) {
    output.flush(signals, kPatience);
    throw;
  }
  if (!verdict.line.empty()) output.write_line(Stream::err, "launch: error: " + verdict.line);
  // Who asked for the end does not wait for a reader that has stopped to read.
  output.flush(signals, verdict.is_end_wished ? std::optional(kPatience) : std::nullopt);
  const int lost = output.error(Stream::out);
  if (verdict.code == 0 && lost != 0)
    return fail_program(
        "launch", lost == EPIPE ? kSignal + SIGPIPE : kFailed,
        fmt::format("stdout cannot be written any more ({}); the ranks themselves are done", std::strerror(lost)));
  return verdict.code;
}

}  // namespace tandem::launch
