#include "tandem/distributed/rank_settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "tandem/core/error.h"
#include "tandem/distributed/fields.h"
#include "tandem/distributed/network/address.h"

namespace tandem::distributed {
namespace {

/// Who starts ranks, the variables it sets, and what a user of it does where it does not say where ranks meet.
struct Starter {
  const char *rank, *world_size, *local_rank, *local_world_size;
  const char* meeting_hint;
};

// In order of precedence.
constexpr std::array<Starter, 4> kStarters{{
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "set both on every rank"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "on several machines, mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500 ..., where HOST runs rank 0"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
     "mpirun -genv MASTER_ADDR HOST -genv MASTER_PORT 29500 ..., where HOST runs rank 0"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr,
     "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1) MASTER_PORT=29500 before srun"},
}};

/// Those that are not understood, by the variables in which they count processes: if they started several, each would
/// train alone.
struct UnknownStarter {
  const char *name, *rank, *world_size;  // world_size may be null
};
constexpr std::array<UnknownStarter, 7> kUnknownStarters{{
    {"PMIx", "PMIX_RANK", nullptr},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
    {"PALS", "PALS_RANKID", nullptr},
    {"ALPS", "ALPS_APP_PE", nullptr},
    {"Horovod", "HOROVOD_RANK", "HOROVOD_SIZE"},
}};

constexpr const char* kHowToTell =
    "to train together, set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in each, or give --rank, --world-size and "
    "--init";

constexpr const char* kInitForms = "env://, tcp://HOST:PORT, tcp://[IPV6]:PORT, file:///ABSOLUTE/PATH";

/// A number together with the name of what said so.
struct Named {
  std::string name;
  std::int64_t value;
};

std::optional<Named> variable(const Environment& environment, const char* name) {
  const auto text = name ? environment(name) : std::nullopt;
  if (!text) return std::nullopt;
  const auto value = parse_number(*text);
  if (!value) core::fail("{}={}: must be a whole number", name, one_line(*text, 100));
  return Named{name, *value};
}

std::optional<Named> flag(const char* name, const std::optional<std::int64_t>& value) {
  if (!value) return std::nullopt;
  return Named{name, *value};
}

/// The two that make sense only together; both or none come back.
std::optional<std::pair<Named, Named>> both(const std::optional<Named>& rank, const std::optional<Named>& size,
                                            const char* rank_name, const char* size_name) {
  if (!rank && !size) return std::nullopt;
  if (rank && size) return std::pair(*rank, *size);
  const Named& given = rank ? *rank : *size;
  core::fail("{} is {}, but {} is not given: {} and {} go together", given.name, given.value,
             rank ? size_name : rank_name, rank_name, size_name);
}

void check_range(const Named& number, std::int64_t least, std::int64_t most, const std::string& why) {
  if (number.value < least || number.value > most) {
    core::fail("{} is {}, must be {} to {}: {}", number.name, number.value, least, most, why);
  }
}

/// A batch script has SLURM_NTASKS, and SLURM_PROCID=0 as if it was the first of them; only srun makes steps.
bool is_started_by_srun(const Environment& environment, const std::optional<Named>& rank) {
  if (environment("SLURM_STEP_ID") || environment("SLURM_STEPID")) return true;
  return rank && rank->value != 0;
}

/// For a process that takes itself for a run of one rank; empty if nothing speaks against that.
std::string warn_of_other_starters(const Environment& environment) {
  for (const UnknownStarter& starter : kUnknownStarters) {
    const auto rank = environment(starter.rank);
    if (!rank) continue;
    const auto size = starter.world_size ? environment(starter.world_size) : std::nullopt;
    if (size == "1") continue;
    return fmt::format(
        "{} is {}{}: this looks like one of several processes that {} started, but each of them trains "
        "alone; {}",
        starter.rank, one_line(*rank, 20),
        size ? fmt::format(", {} is {}", starter.world_size, one_line(*size, 20)) : "", starter.name, kHowToTell);
  }
  const auto tasks = environment("SLURM_NTASKS");
  if (!tasks || tasks == "1") return "";
  return fmt::format(
      "SLURM_NTASKS is {}, but srun did not start this process: it trains alone; to train with all "
      "tasks, start it with srun",
      one_line(*tasks, 20));
}

/// Sets rank, sizes and source; returns who started this process, none: nobody, or flags say it.
const Starter* resolve_numbers(const RankOptions& options, const Environment& environment, RankSettings& settings) {
  const Starter* starter = nullptr;
  auto numbers = both(flag("--rank", options.rank), flag("--world-size", options.world_size), "--rank", "--world-size");
  for (std::size_t i = 0; !numbers && i < kStarters.size(); ++i) {
    const auto rank = variable(environment, kStarters[i].rank);
    if (kStarters[i].rank == std::string_view("SLURM_PROCID") && !is_started_by_srun(environment, rank)) continue;
    numbers = both(rank, variable(environment, kStarters[i].world_size), kStarters[i].rank, kStarters[i].world_size);
    if (numbers) starter = &kStarters[i];
  }
  if (!numbers) {
    settings.warning = warn_of_other_starters(environment);
    numbers = std::pair(Named{"--rank", 0}, Named{"--world-size", 1});
  }

  const auto& [rank, size] = *numbers;
  check_range(size, 1, std::numeric_limits<int>::max(), "the number of ranks");
  check_range(rank, 0, size.value - 1, fmt::format("{} is {}", size.name, size.value));
  settings.rank = static_cast<int>(rank.value);
  settings.world_size = static_cast<int>(size.value);
  settings.source = rank.name;

  auto local_rank = flag("--local-rank", options.local_rank);
  auto local_size = flag("--local-world-size", options.local_world_size);
  if (!local_rank && starter) local_rank = variable(environment, starter->local_rank);
  if (!local_size && starter) local_size = variable(environment, starter->local_world_size);
  if (local_size) {
    check_range(*local_size, 1, size.value, fmt::format("{} is {}", size.name, size.value));
    settings.local_world_size = static_cast<int>(local_size->value);
  }
  if (local_rank) {
    const Named& most = local_size ? *local_size : size;
    check_range(*local_rank, 0, most.value - 1, fmt::format("{} is {}", most.name, most.value));
    settings.local_rank = static_cast<int>(local_rank->value);
  }
  return starter;
}

std::uint16_t parse_port(const std::string& where, const std::string& text) {
  const auto port = parse_number(text);
  if (!port || *port < 1 || *port > 65535) {
    core::fail("{}: the port is '{}', must be 1 to 65535", where, one_line(text, 100));
  }
  return static_cast<std::uint16_t>(*port);
}

/// `place` is HOST:PORT.
void resolve_tcp(const std::string& init, const std::string& place, RankSettings& settings) {
  try {
    const Endpoint endpoint = parse_endpoint(place);
    if (endpoint.host.find(':') != std::string::npos && place.front() != '[') {
      core::fail("'{}': an IPv6 address stands in brackets", place);
    }
    settings.host = endpoint.host;
    settings.port = endpoint.port;
  } catch (const core::Error& error) {
    core::fail("--init {}: {}; allowed are {}", one_line(init, 200), one_line(error.what(), 300), kInitForms);
  }
  settings.store_server = "rank 0";
}

/// Where mpirun keeps what its processes on this machine share, and which run of its this is; empty if the ranks are on
/// several machines, or Open MPI does not say.
std::string port_file_of_open_mpi(const Environment& environment) {
  const auto size = environment("OMPI_COMM_WORLD_SIZE"), local_size = environment("OMPI_COMM_WORLD_LOCAL_SIZE");
  const auto folder = environment("PMIX_SERVER_TMPDIR"), run = environment("PMIX_NAMESPACE");
  if (!size || size != local_size || !folder || !folder->starts_with('/') || !run || run->empty()) return "";
  std::string name = "tandem-port-" + *run;
  std::replace(name.begin(), name.end(), '/', '-');
  return *folder + '/' + name;
}

void resolve_environment(const Starter* starter, const Environment& environment, RankSettings& settings) {
  const std::string host = environment("MASTER_ADDR").value_or(""), port = environment("MASTER_PORT").value_or("");
  if (host.empty() && port.empty() && starter == &kStarters[1]) {
    settings.port_file = port_file_of_open_mpi(environment);
    settings.host = "localhost";
    settings.store_server = "rank 0";
    if (!settings.port_file.empty()) return;
  }
  if (host.empty() || port.empty()) {
    core::fail(
        "{} not set, so the {} ranks ({} is {}) do not know where to meet: {}, or give --init tcp://HOST:PORT or "
        "file:///PATH",
        host.empty() ? (port.empty() ? "MASTER_ADDR and MASTER_PORT are" : "MASTER_ADDR is") : "MASTER_PORT is",
        settings.world_size, settings.source, settings.rank,
        starter ? starter->meeting_hint : kStarters[0].meeting_hint);
  }
  settings.host = without_brackets(host);
  settings.port = parse_port("MASTER_PORT", port);
  if (environment("TANDEM_LAUNCH") == "1") {
    settings.store_server = "launch";
    return;
  }
  settings.store_server = "rank 0";
  if (environment("TORCHELASTIC_USE_AGENT_STORE") == "True" || environment("TORCHELASTIC_RUN_ID")) {
    if (settings.port == 65535) {
      core::fail("MASTER_PORT is 65535: under torchrun the next port is used, so it must be 65534 at most");
    }
    ++settings.port;
  }
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

RankSettings resolve_rank(const RankOptions& options, const Environment& environment) {
  using Meeting = RankSettings::Meeting;
  RankSettings settings;
  settings.interface = options.interface;
  settings.timeout = options.timeout;
  if (options.timeout <= Milliseconds(0)) {
    core::fail("--timeout-s is {:g}, must be more than 0", in_seconds(options.timeout));
  }
  const Starter* const starter = resolve_numbers(options, environment, settings);

  // A run of one rank meets nobody, but what was asked for must be right all the same.
  const auto begins = [&](std::string_view start) { return options.init.starts_with(start); };
  if (options.init == "env://") {
    if (settings.world_size > 1) resolve_environment(starter, environment, settings);
    settings.meeting = Meeting::tcp;
  } else if (begins("tcp://")) {
    resolve_tcp(options.init, options.init.substr(6), settings);
    settings.meeting = Meeting::tcp;
  } else if (begins("file:///") && options.init.size() > 8 && !options.init.ends_with('/')) {
    settings.path = options.init.substr(7);
    settings.meeting = Meeting::file;
  } else {
    core::fail("--init {}: allowed are {}", one_line(options.init, 200), kInitForms);
  }
  if (settings.world_size == 1) settings.meeting = Meeting::none;
  settings.serves_store = settings.meeting == Meeting::tcp && settings.store_server == "rank 0" && settings.rank == 0;
  return settings;
}

}  // namespace tandem::distributed
