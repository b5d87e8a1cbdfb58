// The program `bench`: one subcommand a question, each in a file of its own.
#include <CLI/CLI.hpp>
#include <exception>

#include "tools/bench/allreduce.h"
#include "tools/bench/ops.h"
#include "tools/bench/step.h"
#include "tools/exit.h"
#include "tandem/core/process/standard_streams.h"

int main(int argc, char** argv) {
  tandem::core::open_standard_streams();
  CLI::App app("Measures Tandem on this machine. Each subcommand prints a table and writes it with --json.", "bench");
  app.require_subcommand(1);
  tandem::bench::add_step(app);
  tandem::bench::add_ops(app);
  tandem::bench::add_allreduce(app);
  try {
    app.parse(argc, argv);
    return tandem::end_program("bench");
  } catch (const CLI::Success& help) {
    return tandem::end_program("bench", app.exit(help));
  } catch (const CLI::ParseError& error) {
    return tandem::fail_program("bench", tandem::kWrongUsage, error.what());
  } catch (const std::exception& error) {
    return tandem::fail_program("bench", tandem::kFailed, error.what());
  }
}
