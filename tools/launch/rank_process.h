// The process of one rank: started in a process group of its own, with pipes for what it writes.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "tools/launch/guard.h"

namespace tandem::launch {

/// How a process ended: exactly one of the two is not 0, or both are where all went well.
struct Ending {
  int code = 0;
  int signal = 0;
};

class RankProcess {
 public:
  /// stdin is /dev/null. Throws UsageError where the program cannot be executed, Error where there can be
  /// no process.
  RankProcess(const std::string& program, const std::vector<std::string>& arguments,
              const std::vector<std::string>& environment, const sigset_t& signal_mask, const Guard& guard);
  /// Kills the group of a process that still runs.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  /// Reading ends that do not wait; -1 once closed.
  int out() const { return out_; }
  int err() const { return err_; }
  void close_pipe(int fd);
  void close_pipes();

  /// Once, when the process has ended; then what it left behind in its group has been killed.
  std::optional<Ending> take_ending();
  /// To the process alone, and to its group. Nothing happens where it has ended.
  void send(int signal) const;
  void send_to_group(int signal) const;
  /// By SIGSTOP or the like.
  bool is_stopped() const;
  /// What the process has computed so far; 0 where it has ended.
  double cpu_seconds() const;

 private:
  /// The fields of /proc/PID/stat from the state on; empty where there are none.
  std::vector<std::string> state() const;

  pid_t pid_ = -1;  // -1: it has ended
  int out_ = -1, err_ = -1;
  const Guard& guard_;
};

}  // namespace tandem::launch
