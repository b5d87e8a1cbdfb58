// Groups over MPI: runs programs/mpi_cases under mpirun. Not built where there is no MPI.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "tests/errors.h"

namespace {

using tandem::testing::expect_contains;

// For the files of one mpirun: two that begin at the same time stumble over each other's folder.
class OwnFolder {
 public:
  OwnFolder() : path_((std::filesystem::temp_directory_path() / "mpi-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder");
  }
  ~OwnFolder() { std::filesystem::remove_all(path_); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Finished {
  int code = -1;
  std::string output;
};

// Also as root and with more ranks than cores; unbound, since runs beside this one would take the same cores; without
// copies from process to process, which containers forbid. MPI leaks, and takes locks in more than one order, which are
// not ours to mend; and sanitizers do not see how OpenMP's threads wait for each other.
Finished mpirun(int ranks, const std::string& filter) {
  const OwnFolder folder;
  const std::string command =
      "TMPDIR=" + folder.path() +
      " OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=detect_deadlocks=0 " TANDEM_MPIRUN
      " --oversubscribe --allow-run-as-root --bind-to none --timeout 300 --mca btl_vader_single_copy_mechanism none"
      " -n " +
      std::to_string(ranks) + " " TANDEM_MPI_CASES " --gtest_brief=1 --gtest_filter=" + filter + " </dev/null 2>&1";
  Finished finished;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return finished;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    finished.output.append(buffer.data(), count);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) finished.code = WEXITSTATUS(status);
  return finished;
}

class MpiGroup : public ::testing::TestWithParam<int> {};

TEST_P(MpiGroup, RunsAllCases) {
  const Finished finished = mpirun(GetParam(), "MpiGroup.*");
  EXPECT_EQ(finished.code, 0) << finished.output;
  for (int rank = 0; rank < GetParam(); ++rank)
    expect_contains(finished.output, "rank " + std::to_string(rank) + ": all is well");
}

INSTANTIATE_TEST_SUITE_P(Sizes, MpiGroup, ::testing::Range(1, 5));

// After a failure that left MPI with a collective, mpirun ends the run with an error of its own.
class MpiGroupFailure : public ::testing::TestWithParam<const char*> {};

TEST_P(MpiGroupFailure, IsSaidAndEnds) {
  const Finished finished = mpirun(3, std::string("Failure.") + GetParam());
  expect_contains(finished.output, "rank 0: all is well");
  EXPECT_EQ(finished.output.find("tests failed"), std::string::npos) << finished.output;
}

INSTANTIATE_TEST_SUITE_P(Cases, MpiGroupFailure,
                         ::testing::Values("WhoIsAbsentIsNamedAtTheDeadline", "DifferencesAreErrorsOnAllRanks",
                                           "AbortWakesAWait", "DestructionEndsWhatIsPending"));

}  // namespace
