#include "tools/launch/options.h"

#include <unistd.h>

#include <charconv>
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace tandem::launch {
namespace {

constexpr const char* kDescription =
    "Starts the ranks of a run: launch -n 2 -- PROGRAM ARGUMENTS...\n"
    "Each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and its share of the cores\n"
    "(OMP_NUM_THREADS); each line of its output is prefixed with its rank. When one fails, the others are stopped.\n"
    "INT, TERM, HUP and QUIT are passed on once and end the run, unless they were ignored at the start (nohup); a "
    "later\n"
    "second one ends the ranks at once. USR1 and USR2 are passed on. Ctrl-Z pauses the ranks, too.\n"
    "Exit codes: 0 done, 2 wrong usage, 3 a rank on another node failed, 128 + N ended by signal N, else that of the\n"
    "rank that failed first; the last line on stderr says why.";
constexpr int kMaxRanks = 4096, kMaxNodes = 65536, kMaxRestarts = 1000000;
constexpr std::uint16_t kDefaultPort = 29500;
constexpr double kMaxGrace = 86400;

struct Texts {
  std::optional<std::string> ranks, nodes, node_rank, master_addr, master_port, max_restarts, log_dir, grace_s,
      stop_timeout_s;
};

void add_flags(CLI::App& app, Texts& texts) {
  const auto add = [&](const char* group, const char* name, std::optional<std::string>& text, const char* type,
                       const char* help) {
    app.add_option(name, text, help)
        ->group(group)
        ->type_name(type)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  add("Ranks", "-n", texts.ranks, "NUMBER", "ranks to start on this machine");
  add("Ranks", "--log-dir", texts.log_dir, "PATH",
      "folder for the output of each rank, without prefix: rank0.log, ...");
  add("Failures", "--grace-s", texts.grace_s, "NUMBER",
      "seconds that the other ranks get to end by themselves after one has failed; default 5");
  add("Failures", "--max-restarts", texts.max_restarts, "NUMBER",
      "number of times that all ranks are started again after a failure; train resumes from its newest checkpoint; "
      "default 0");
  add("Signals", "--stop-timeout-s", texts.stop_timeout_s, "NUMBER",
      "after a signal was passed on, seconds without progress until ranks are killed (progress is a step or a "
      "collective; for a rank that reports neither, CPU time); default 300");
  add("Several nodes", "--nnodes", texts.nodes, "NUMBER",
      "number of launchers, each on a machine of its own; default 1");
  add("Several nodes", "--node-rank", texts.node_rank, "NUMBER", "number of this launcher, from 0");
  add("Several nodes", "--master-addr", texts.master_addr, "HOST", "host of node 0, whose launcher serves the store");
  add("Several nodes", "--master-port", texts.master_port, "NUMBER",
      "port of the store; default 29500, on one machine any free port");
}

int whole_number(const char* flag, const std::optional<std::string>& text, int least, int most, int otherwise) {
  if (!text) return otherwise;
  int number = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most)
    fail_usage("{} '{}': must be a whole number from {} to {}", flag, *text, least, most);
  return number;
}

double seconds(const char* flag, const std::optional<std::string>& text, double otherwise) {
  if (!text) return otherwise;
  char* stop = nullptr;
  const double number = std::strtod(text->c_str(), &stop);
  if (text->empty() || *stop != '\0' || !std::isfinite(number) || number < 0 || number > kMaxGrace)
    fail_usage("{} '{}': must be seconds from 0 to {}", flag, *text, kMaxGrace);
  return number;
}

void read_flags(const Texts& texts, Options& options) {
  if (!texts.ranks) fail_usage("-n is missing: how many ranks to start, as in launch -n 2 -- PROGRAM ARGUMENTS...");
  options.ranks = whole_number("-n", texts.ranks, 1, kMaxRanks, 1);
  options.nodes = whole_number("--nnodes", texts.nodes, 1, kMaxNodes, 1);
  options.max_restarts = whole_number("--max-restarts", texts.max_restarts, 0, kMaxRestarts, 0);
  options.grace_s = seconds("--grace-s", texts.grace_s, options.grace_s);
  options.stop_timeout_s = seconds("--stop-timeout-s", texts.stop_timeout_s, options.stop_timeout_s);
  options.log_dir = texts.log_dir;
  options.master_addr = texts.master_addr;
  if (options.master_addr && options.master_addr->empty()) fail_usage("--master-addr '': must be a host");
  if (texts.master_port)
    options.master_port = static_cast<std::uint16_t>(whole_number("--master-port", texts.master_port, 1, 65535, 0));
  if (options.nodes > 1) {
    if (!options.master_addr)
      fail_usage("--nnodes {} needs --master-addr: the host of node 0, the same on all nodes", options.nodes);
    if (!texts.node_rank)
      fail_usage("--nnodes {} needs --node-rank: which node this is, from 0 to {}", options.nodes, options.nodes - 1);
    if (options.max_restarts > 0)
      fail_usage("--max-restarts {}: with --nnodes {} it cannot be; ranks are started again on one machine only",
                 options.max_restarts, options.nodes);
    if (!options.master_port) options.master_port = kDefaultPort;
  }
  options.node_rank = whole_number("--node-rank", texts.node_rank, 0, options.nodes - 1, 0);
}

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.empty()) fail_usage("the program's name is empty");
  if (name.find('/') != std::string::npos) {
    std::error_code error;
    if (std::filesystem::is_directory(name, error)) fail_usage("program {}: a folder", name);
    if (!is_file(name)) fail_usage("program {}: not found", name);
    if (access(name.c_str(), X_OK) != 0) fail_usage("program {}: not executable ({})", name, std::strerror(errno));
    return name;
  }
  const char* variable = std::getenv("PATH");
  const std::string folders = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
  std::string found;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = end > begin ? folders.substr(begin, end - begin) : ".";
    std::string path = fmt::format("{}/{}", folder, name);
    if (is_file(path) && access(path.c_str(), X_OK) == 0) return path;
    if (found.empty() && is_file(path)) found = path;
    begin = end + 1;
  }
  if (!found.empty()) fail_usage("program {}: not executable ({})", name, found);
  fail_usage("program {}: not found in PATH{}", name,
             is_file(name) ? fmt::format("; the one in this folder is ./{}", name) : "");
}

std::optional<Options> parse_command_line(int argc, const char* const* argv) {
  int own = 0;  // what stands before --
  while (own < argc && std::strcmp(argv[own], "--") != 0) ++own;
  Texts texts;
  CLI::App app(kDescription, "launch");
  app.allow_extras();
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("OPTIONS", "FLAGS] -- PROGRAM [ARGUMENTS");
  add_flags(app, texts);
  try {
    app.parse(own, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    fail_usage("{}", error.what());
  }
  if (const auto extras = app.remaining(); !extras.empty()) {
    if (extras.front().starts_with("-") && extras.front() != "-")
      fail_usage("unknown flag {} (see --help; what is the program's stands after --)", extras.front());
    fail_usage("unexpected '{}': the program stands after --, as in launch -n 2 -- PROGRAM ARGUMENTS...",
               extras.front());
  }
  Options options;
  read_flags(texts, options);
  if (own + 1 >= argc) fail_usage("no program: it stands after --, as in launch -n 2 -- PROGRAM ARGUMENTS...");
  options.arguments.assign(argv + own + 1, argv + argc);
  options.program = find_program(options.arguments.front());
  return options;
}

}  // namespace tandem::launch
