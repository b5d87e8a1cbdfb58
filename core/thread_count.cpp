#include "tandem/core/thread_count.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace tandem::core {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool has(const std::vector<std::string>& parts, const char* wanted) {
  return std::find(parts.begin(), parts.end(), wanted) != parts.end();
}

/// A place where groups are files, and which group is there: not all of the hierarchy may be visible.
struct Mount {
  fs::path point;
  std::string group;
};

/// Of the hierarchy that limits processor time, from /proc/self/mountinfo:
///   ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELDS] - TYPE SOURCE OPTIONS
std::optional<Mount> find_mount(const fs::path& root, bool is_version_2) {
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto head = split(line.substr(0, dash), ' '), tail = split(line.substr(dash + 3), ' ');
    if (head.size() < 5 || tail.size() < 3) continue;
    const bool is_it = is_version_2 ? tail[0] == "cgroup2" : tail[0] == "cgroup" && has(split(tail[2], ','), "cpu");
    if (is_it) return Mount{root / fs::path(head[4]).relative_path(), head[3]};
  }
  return std::nullopt;
}

std::optional<double> read_number(const fs::path& path) {
  std::ifstream file(path);
  double number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// Of one group; none: no limit, or none of its own.
std::optional<double> quota_of(const fs::path& group, bool is_version_2) {
  std::optional<double> quota, period;
  if (is_version_2) {
    std::ifstream file(group / "cpu.max");  // "150000 100000", "max 100000"
    std::string text;
    double length = 0;
    if (!(file >> text >> length) || text == "max") return std::nullopt;
    quota = std::strtod(text.c_str(), nullptr);
    period = length;
  } else {
    quota = read_number(group / "cpu.cfs_quota_us");  // -1: no limit
    period = read_number(group / "cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

/// The least of a group and of those around it, up to where they can be seen. `group`: from /proc/self/cgroup.
std::optional<double> least_quota(const Mount& mount, const std::string& group, bool is_version_2) {
  fs::path relative = fs::path(group).lexically_relative(mount.group);
  if (relative.empty() || *relative.begin() == "..") relative = ".";  // named as seen from outside of this container
  std::optional<double> least;
  for (fs::path at = mount.point / relative;; at = at.parent_path()) {
    const auto quota = quota_of(at, is_version_2);
    if (quota) least = std::min(least.value_or(*quota), *quota);
    if (at == mount.point || at == mount.point / "." || at == at.root_path() || at.empty()) return least;
  }
}

int processors_bound_to() {
  for (int possible = 1024; possible <= 1 << 20; possible *= 2) {  // the kernel says EINVAL if it has more
    cpu_set_t* set = CPU_ALLOC(possible);
    const std::size_t size = CPU_ALLOC_SIZE(possible);
    const bool is_known = set && sched_getaffinity(0, size, set) == 0;
    const int processors = is_known ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (is_known) return std::max(1, processors);
    if (errno != EINVAL) break;
  }
  return 1;
}

}  // namespace

std::optional<double> processor_quota(const fs::path& root) {
  std::optional<double> least;
  std::ifstream file(root / "proc/self/cgroup");
  // ID:CONTROLLERS:GROUP, of version 2 without controllers. A group's name may hold colons, as containerd's do.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version_2 = controllers.empty();
    if (!is_version_2 && !has(split(controllers, ','), "cpu")) continue;
    const auto mount = find_mount(root, is_version_2);
    const auto quota = mount ? least_quota(*mount, line.substr(second + 1), is_version_2) : std::nullopt;
    if (quota) least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

int available_processors(const fs::path& root) {
  const int processors = processors_bound_to();
  const auto quota = processor_quota(root);
  if (!quota || *quota >= processors) return processors;
  return std::max(1, static_cast<int>(std::lround(*quota)));
}

int threads_of_rank(const std::optional<std::int64_t>& asked, int ranks, int processors, const Variable& environment) {
  if (asked) return static_cast<int>(*asked);
  if (const auto text = environment("OMP_NUM_THREADS")) {
    int threads = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), threads);
    const bool is_number = error == std::errc() && (end == text->data() + text->size() || *end == ',');
    if (is_number && threads >= 1) return threads;  // OpenMP itself warns of anything else
  }
  return std::max(1, processors / std::max(1, ranks));
}

int threads_of_rank(const std::optional<std::int64_t>& asked, int ranks) {
  return threads_of_rank(asked, ranks, available_processors(), [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
}

}  // namespace tandem::core
