// Every way in which a process learns its rank, and what it is told where that does not work.
#include "tandem/distributed/rank_settings.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/errors.h"

namespace tandem::distributed {
namespace {

using Variables = std::map<std::string, std::string>;
using Meeting = RankSettings::Meeting;

Environment fake(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

RankSettings resolve(const Variables& variables, const RankOptions& options = {}) {
  return resolve_rank(options, fake(variables));
}

RankOptions flags(std::optional<std::int64_t> rank, std::optional<std::int64_t> size,
                  const std::string& init = "env://") {
  RankOptions options;
  options.rank = rank;
  options.world_size = size;
  options.init = init;
  return options;
}

Variables operator+(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Variables master{{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
const Variables by_rank{{"RANK", "1"}, {"WORLD_SIZE", "4"}};
const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables pmi{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const Variables slurm{{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "1"}, {"SLURM_STEP_ID", "0"}};

TEST(RankSettings, NothingSaidIsARunOfOneRank) {
  const RankSettings settings = resolve({});
  EXPECT_EQ(settings.rank, 0);
  EXPECT_EQ(settings.world_size, 1);
  EXPECT_EQ(settings.meeting, Meeting::none);
  EXPECT_FALSE(settings.serves_store);
  EXPECT_FALSE(settings.local_rank);
}

TEST(RankSettings, EveryStarter) {
  struct Case {
    Variables variables;
    int rank, size;
    std::optional<int> local_rank, local_size;
    const char* source;
  };
  const std::vector<Case> cases{
      {by_rank, 1, 4, {}, {}, "RANK"},
      {by_rank + Variables{{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}, 1, 4, 1, 2, "RANK"},
      {open_mpi, 3, 4, 1, 2, "OMPI_COMM_WORLD_RANK"},
      {pmi, 2, 4, 0, 2, "PMI_RANK"},
      {slurm, 5, 8, 1, {}, "SLURM_PROCID"},
      // Several: the first of the list, and its local rank.
      {slurm + pmi + open_mpi + by_rank, 1, 4, {}, {}, "RANK"},
      {slurm + pmi + open_mpi, 3, 4, 1, 2, "OMPI_COMM_WORLD_RANK"},
      {slurm + pmi, 2, 4, 0, 2, "PMI_RANK"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.source);
    const RankSettings settings = resolve(c.variables + master);
    EXPECT_EQ(settings.rank, c.rank);
    EXPECT_EQ(settings.world_size, c.size);
    EXPECT_EQ(settings.local_rank, c.local_rank);
    EXPECT_EQ(settings.local_world_size, c.local_size);
    EXPECT_EQ(settings.source, c.source);
    EXPECT_EQ(settings.meeting, Meeting::tcp);
    EXPECT_EQ(settings.host, "node7");
    EXPECT_EQ(settings.port, 29500);
    EXPECT_FALSE(settings.serves_store);
  }
}

// All ranks of one mpirun see the same folder and name, and no two runs of it the same.
TEST(RankSettings, OpenMpiOnOneMachineNeedsNoAddress) {
  const Variables one_machine = Variables{{"OMPI_COMM_WORLD_RANK", "0"},
                                          {"OMPI_COMM_WORLD_SIZE", "2"},
                                          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                          {"PMIX_SERVER_TMPDIR", "/tmp/ompi.host/pid.7"},
                                          {"PMIX_NAMESPACE", "605290497"}};
  const RankSettings first = resolve(one_machine);
  EXPECT_EQ(first.port_file, "/tmp/ompi.host/pid.7/tandem-port-605290497");
  EXPECT_EQ(first.meeting, Meeting::tcp);
  EXPECT_EQ(first.host, "localhost");
  EXPECT_EQ(first.port, 0);
  EXPECT_TRUE(first.serves_store);
  const RankSettings second = resolve(Variables{{"OMPI_COMM_WORLD_RANK", "1"}} + one_machine);
  EXPECT_EQ(second.port_file, first.port_file);
  EXPECT_FALSE(second.serves_store);

  EXPECT_EQ(resolve(one_machine + master).host, "node7");
  EXPECT_EQ(resolve(one_machine + master).port_file, "");
  EXPECT_EQ(resolve(one_machine, flags({}, {}, "tcp://h:80")).port_file, "");
  for (const Variables& missing :
       {Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}, Variables{{"PMIX_SERVER_TMPDIR", ""}},
        Variables{{"PMIX_NAMESPACE", ""}}, Variables{{"MASTER_PORT", "80"}}})
    TANDEM_EXPECT_ERROR(resolve(missing + one_machine), "on several machines, mpirun -x MASTER_ADDR=HOST");
}

// As a batch script that calls train without srun.
TEST(RankSettings, AProcessThatSrunDidNotStartIsARunOfOneRank) {
  for (const Variables& batch :
       {Variables{{"SLURM_NTASKS", "8"}},
        Variables{{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"MASTER_ADDR", "h"}}}) {
    const RankSettings settings = resolve(batch);
    EXPECT_EQ(settings.world_size, 1);
    EXPECT_EQ(settings.meeting, Meeting::none);
    EXPECT_EQ(settings.warning,
              "SLURM_NTASKS is 8, but srun did not start this process: it trains alone; to train with all tasks, start "
              "it with srun");
  }
  EXPECT_EQ(resolve({{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}}).warning, "");
  EXPECT_EQ(resolve(Variables{{"SLURM_PROCID", "0"}} + slurm + master).world_size, 8);
}

TEST(RankSettings, StartersThatAreNotUnderstoodAreWarnedOf) {
  const std::string how =
      "to train together, set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in each, or give --rank, --world-size and "
      "--init";
  EXPECT_EQ(resolve({{"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "4"}}).warning,
            "MV2_COMM_WORLD_RANK is 1, MV2_COMM_WORLD_SIZE is 4: this looks like one of several processes that MVAPICH "
            "started, but each of them trains alone; " +
                how);
  EXPECT_EQ(
      resolve({{"PMIX_RANK", "0"}}).warning,
      "PMIX_RANK is 0: this looks like one of several processes that PMIx started, but each of them trains alone; " +
          how);
  EXPECT_EQ(resolve({{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "1"}}).warning, "");
  EXPECT_EQ(resolve({{"PMIX_RANK", "0"}}, flags(0, 1)).warning, "") << "who says so means it";
  EXPECT_EQ(resolve(Variables{{"PMIX_RANK", "3"}} + open_mpi + master).warning, "");
  EXPECT_EQ(resolve({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}}).warning, "");
  EXPECT_EQ(resolve({}).warning, "");
}

TEST(RankSettings, FlagsWin) {
  RankOptions options = flags(0, 2, "tcp://h:1");
  options.local_rank = 1;
  options.local_world_size = 2;
  const RankSettings settings = resolve(by_rank + master + Variables{{"LOCAL_RANK", "7"}}, options);
  EXPECT_EQ(settings.rank, 0);
  EXPECT_EQ(settings.world_size, 2);
  EXPECT_EQ(settings.local_rank, 1);
  EXPECT_EQ(settings.local_world_size, 2);
  EXPECT_EQ(settings.source, "--rank");
  EXPECT_EQ(settings.host, "h");
  EXPECT_TRUE(settings.serves_store);
  EXPECT_FALSE(resolve(by_rank + master + Variables{{"LOCAL_RANK", "3"}}, flags(0, 2)).local_rank);
}

TEST(RankSettings, WhoServes) {
  const Variables first = Variables{{"RANK", "0"}} + by_rank + master;
  EXPECT_TRUE(resolve(first).serves_store);
  EXPECT_EQ(resolve(first).store_server, "rank 0");

  const RankSettings launch = resolve(first + Variables{{"TANDEM_LAUNCH", "1"}});
  EXPECT_FALSE(launch.serves_store);
  EXPECT_EQ(launch.store_server, "launch");
  EXPECT_EQ(launch.port, 29500);

  for (const Variables& torchrun :
       {Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}}, Variables{{"TORCHELASTIC_RUN_ID", "x"}}}) {
    EXPECT_EQ(resolve(first + torchrun).port, 29501);
    EXPECT_TRUE(resolve(first + torchrun).serves_store);
    EXPECT_EQ(resolve(by_rank + master + torchrun).port, 29501);
    EXPECT_FALSE(resolve(by_rank + master + torchrun).serves_store);
    // Another meeting place than the agent's.
    EXPECT_EQ(resolve(first + torchrun, flags({}, {}, "tcp://h:29500")).port, 29500);
  }
  TANDEM_EXPECT_ERROR(
      resolve(by_rank + Variables{{"MASTER_ADDR", "h"}, {"MASTER_PORT", "65535"}, {"TORCHELASTIC_RUN_ID", "x"}}),
      "65534");
}

TEST(RankSettings, Init) {
  const auto init = [](const std::string& text) { return resolve({}, flags(0, 2, text)); };
  EXPECT_EQ(init("tcp://10.0.0.1:80").host, "10.0.0.1");
  EXPECT_EQ(init("tcp://10.0.0.1:80").port, 80);
  EXPECT_EQ(init("tcp://[fe80::1]:29500").host, "fe80::1");
  EXPECT_EQ(init("tcp://[::1]:29500").port, 29500);
  EXPECT_EQ(init("file:///tmp/run/store").path, "/tmp/run/store");
  EXPECT_EQ(init("file:///tmp/run").meeting, Meeting::file);
  EXPECT_FALSE(init("file:///tmp/run").serves_store);
  EXPECT_EQ(resolve(by_rank + Variables{{"MASTER_ADDR", "[::1]"}, {"MASTER_PORT", "1"}}).host, "::1");
  EXPECT_EQ(resolve(by_rank + Variables{{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "1"}}).host, "::1");

  for (const char* text : {"", "tcp", "tcp://", "tcp://h", "tcp://:80", "tcp://::1:80", "tcp://[::1]", "tcp://a/b:1",
                           "file://", "file:///", "file://tmp/x", "file:///tmp/", "udp://h:1", "env://x"}) {
    SCOPED_TRACE(text);
    TANDEM_EXPECT_ERROR(init(text), std::string("--init ") + text);
  }
  TANDEM_EXPECT_ERROR(init("tcp://h"), "tcp://HOST:PORT");
  TANDEM_EXPECT_ERROR(init("file://x"), "file:///ABSOLUTE/PATH");
  for (const char* port : {"0", "65536", "-1", "x", "", "1x", "99999999999999999999"}) {
    SCOPED_TRACE(port);
    TANDEM_EXPECT_ERROR(init(std::string("tcp://h:") + port), "must be 1 to 65535");
  }
  // One rank meets nobody, yet a wrong flag is wrong.
  EXPECT_EQ(resolve({}, flags({}, {}, "tcp://h:80")).meeting, Meeting::none);
  TANDEM_EXPECT_ERROR(resolve({}, flags({}, {}, "nowhere")), "--init nowhere");
}

TEST(RankSettings, OneWithoutTheOther) {
  TANDEM_EXPECT_ERROR(resolve({}, flags(1, {})), "--rank is 1, but --world-size is not given");
  TANDEM_EXPECT_ERROR(resolve(by_rank, flags({}, 2)), "--world-size is 2, but --rank is not given");
  TANDEM_EXPECT_ERROR(resolve({{"RANK", "1"}}), "RANK is 1, but WORLD_SIZE is not given");
  TANDEM_EXPECT_ERROR(resolve({{"WORLD_SIZE", "2"}}), "WORLD_SIZE is 2, but RANK is not given");
  TANDEM_EXPECT_ERROR(resolve({{"PMI_RANK", "2"}}), "PMI_SIZE");
  TANDEM_EXPECT_ERROR(resolve({{"SLURM_PROCID", "2"}}), "SLURM_NTASKS");
}

TEST(RankSettings, OutOfRangeOrNoNumber) {
  TANDEM_EXPECT_ERROR(resolve({}, flags(2, 2)), "--rank is 2, must be 0 to 1: --world-size is 2");
  TANDEM_EXPECT_ERROR(resolve({}, flags(-1, 2)), "--rank is -1");
  TANDEM_EXPECT_ERROR(resolve({}, flags(0, 0)), "--world-size is 0");
  TANDEM_EXPECT_ERROR(resolve({}, flags(0, 1LL << 40)), "--world-size is 1099511627776");
  TANDEM_EXPECT_ERROR(resolve({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), "RANK is 4, must be 0 to 3: WORLD_SIZE is 4");
  for (const char* text : {"", "one", "1.5", " 1", "1 ", "0x1", "99999999999999999999", "a\nb"}) {
    SCOPED_TRACE(text);
    TANDEM_EXPECT_ERROR(resolve({{"RANK", text}, {"WORLD_SIZE", "4"}}), "RANK=");
  }
  RankOptions options = flags(0, 4, "tcp://h:1");
  options.local_rank = 2;
  options.local_world_size = 2;
  TANDEM_EXPECT_ERROR(resolve({}, options), "--local-rank is 2, must be 0 to 1: --local-world-size is 2");
  options.local_world_size = 5;
  TANDEM_EXPECT_ERROR(resolve({}, options), "--local-world-size is 5, must be 1 to 4: --world-size is 4");
  options = {};
  options.timeout = Milliseconds(0);
  TANDEM_EXPECT_ERROR(resolve({}, options), "--timeout-s is 0");
}

TEST(RankSettings, NowhereToMeetSaysWhatToSet) {
  TANDEM_EXPECT_ERROR(resolve(by_rank), "MASTER_ADDR and MASTER_PORT are not set");
  TANDEM_EXPECT_ERROR(resolve(by_rank + Variables{{"MASTER_ADDR", "h"}}), "MASTER_PORT is not set");
  TANDEM_EXPECT_ERROR(resolve(by_rank + Variables{{"MASTER_ADDR", ""}, {"MASTER_PORT", "1"}}),
                      "MASTER_ADDR is not set");
  TANDEM_EXPECT_ERROR(resolve({}, flags(0, 2)), "--init tcp://HOST:PORT");
  TANDEM_EXPECT_ERROR(resolve(open_mpi), "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500");
  TANDEM_EXPECT_ERROR(resolve(pmi), "mpirun -genv MASTER_ADDR HOST");
  TANDEM_EXPECT_ERROR(resolve(slurm), "scontrol show hostnames");
  TANDEM_EXPECT_ERROR(resolve(by_rank + Variables{{"MASTER_ADDR", "h"}, {"MASTER_PORT", "http"}}), "MASTER_PORT");
}

}  // namespace
}  // namespace tandem::distributed
