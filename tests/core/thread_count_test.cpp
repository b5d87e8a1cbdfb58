// Threads of a process: flags, OMP_NUM_THREADS, processors, and quotas of control groups, read from fake folders.
#include "tandem/core/thread_count.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <stdexcept>

namespace tandem::core {
namespace {

namespace fs = std::filesystem;

/// A folder with what a container's /proc and /sys hold.
class FakeRoot : public ::testing::Test {
 protected:
  FakeRoot() {
    std::string name = (fs::temp_directory_path() / "tandem-root-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    root_ = name;
  }
  ~FakeRoot() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }

  fs::path root_;
};

constexpr const char* kMountsOfVersion2 =
    "23 1 0:20 / / rw - ext4 /dev/vda rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

constexpr const char* kMountsOfVersion1 =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

TEST_F(FakeRoot, WithoutGroupsThereIsNoQuota) {
  EXPECT_EQ(processor_quota(root_), std::nullopt);
  write("proc/self/cgroup", "0::/a\n\nnonsense\n1:name=systemd:/\n");
  EXPECT_EQ(processor_quota(root_), std::nullopt);
  write("proc/self/mountinfo", "nonsense\n- - -\n");
  EXPECT_EQ(processor_quota(root_), std::nullopt);
}

// Nested groups: the least of all limits counts, wherever it stands.
TEST_F(FakeRoot, Version2) {
  write("proc/self/mountinfo", kMountsOfVersion2);
  write("proc/self/cgroup", "0::/kubepods/pod/box\n");
  EXPECT_EQ(processor_quota(root_), std::nullopt);
  write("sys/fs/cgroup/kubepods/pod/box/cpu.max", "max 100000\n");
  EXPECT_EQ(processor_quota(root_), std::nullopt);
  write("sys/fs/cgroup/kubepods/cpu.max", "400000 100000\n");
  EXPECT_EQ(processor_quota(root_), 4);
  write("sys/fs/cgroup/kubepods/pod/cpu.max", "150000 100000\n");
  EXPECT_EQ(processor_quota(root_), 1.5);
  write("sys/fs/cgroup/kubepods/pod/box/cpu.max", "200000 100000\n");
  EXPECT_EQ(processor_quota(root_), 1.5);
  write("sys/fs/cgroup/kubepods/pod/box/cpu.max", "25000 50000\n");
  EXPECT_EQ(processor_quota(root_), 0.5);
  EXPECT_EQ(available_processors(root_), 1);
  write("sys/fs/cgroup/kubepods/pod/box/cpu.max", "rubbish");
  EXPECT_EQ(processor_quota(root_), 1.5);
}

TEST_F(FakeRoot, Version1) {
  write("proc/self/mountinfo", kMountsOfVersion1);
  write("proc/self/cgroup", "3:cpuset:/other\n2:cpu,cpuacct:/docker/box\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processor_quota(root_), std::nullopt);
  write("sys/fs/cgroup/cpu,cpuacct/docker/box/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(processor_quota(root_), std::nullopt) << "no period";
  write("sys/fs/cgroup/cpu,cpuacct/docker/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processor_quota(root_), 3);
  write("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(processor_quota(root_), 2);
}

TEST_F(FakeRoot, AGroupsNameMayHoldColons) {
  write("proc/self/mountinfo", kMountsOfVersion2);
  write("proc/self/cgroup", "0::/kubepods-pod1.slice:cri-containerd:box\n");
  write("sys/fs/cgroup/kubepods-pod1.slice:cri-containerd:box/cpu.max", "200000 100000\n");
  EXPECT_EQ(processor_quota(root_), 2);
}

// A container sees its own group as the top, but may read its name as the machine around it says it.
TEST_F(FakeRoot, TheGroupMayBeNamedAsSeenFromOutside) {
  for (const std::string root_of_mount : {"/docker/box", "/", "/../.."}) {
    write("proc/self/mountinfo", "31 23 0:28 " + root_of_mount + " /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    write("sys/fs/cgroup/cpu.max", "200000 100000\n");
    for (const std::string group : {"/docker/box", "/", "/../.."}) {
      write("proc/self/cgroup", "0::" + group + "\n");
      EXPECT_EQ(processor_quota(root_), 2) << root_of_mount << ' ' << group;
    }
  }
}

TEST_F(FakeRoot, ProcessorsAreThoseBoundToWithinTheQuota) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  const int bound = CPU_COUNT(&set);
  EXPECT_EQ(available_processors(root_), bound);
  write("proc/self/mountinfo", kMountsOfVersion2);
  write("proc/self/cgroup", "0::/\n");
  for (const auto& [limit, expected] :
       {std::pair{"100000000 100000", bound}, std::pair{"10000 100000", 1}, std::pair{"140000 100000", 1},
        std::pair{"160000 100000", std::min(2, bound)}}) {
    write("sys/fs/cgroup/cpu.max", limit);
    EXPECT_EQ(available_processors(root_), expected) << limit;
  }
}

TEST(ThreadsOfRank, AFlagThenTheVariableThenAShare) {
  const auto threads = [](std::optional<std::int64_t> asked, int ranks, const char* variable) {
    return threads_of_rank(asked, ranks, 8, [&](const char* name) -> std::optional<std::string> {
      EXPECT_EQ(std::string(name), "OMP_NUM_THREADS");
      return variable ? std::optional<std::string>(variable) : std::nullopt;
    });
  };
  EXPECT_EQ(threads(5, 2, "3"), 5);
  EXPECT_EQ(threads({}, 2, "3"), 3);
  EXPECT_EQ(threads({}, 2, "6,2"), 6);
  EXPECT_EQ(threads({}, 2, nullptr), 4);
  EXPECT_EQ(threads({}, 3, nullptr), 2);
  EXPECT_EQ(threads({}, 9, nullptr), 1);
  for (const char* wrong : {"", "0", "-2", "two", "3x", "99999999999999999999"}) EXPECT_EQ(threads({}, 2, wrong), 4);
}

}  // namespace
}  // namespace tandem::core
