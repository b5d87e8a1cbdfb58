// The program `bench`: one subcommand a question, each in a file of its own.
#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tools/bench/allreduce.h"
#include "tools/bench/ops.h"
#include "tools/bench/step.h"

namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

// The last thing that is printed, and always one line.
int fail(int code, std::string cause) {
  std::replace(cause.begin(), cause.end(), '\n', ' ');
  std::fflush(stdout);
  std::fprintf(stderr, "bench: error: %s\n", cause.c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures Tandem on this machine. Each subcommand prints a table and writes it with --json.", "bench");
  app.require_subcommand(1);
  tandem::bench::add_step(app);
  tandem::bench::add_ops(app);
  tandem::bench::add_allreduce(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(kWrongUsage, error.what());
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}
