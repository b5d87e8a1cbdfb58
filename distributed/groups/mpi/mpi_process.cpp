// Start and end of MPI.
#include "tandem/distributed/groups/mpi/mpi_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tandem/core/error.h"

namespace tandem::distributed {

MpiProcess& MpiProcess::get() {
  static MpiProcess process;  // ended with the process, after main
  return process;
}

MpiProcess::MpiProcess() : abandoned_(new std::vector<std::shared_ptr<void>>) {
  int is_started = 0, is_ended = 0, threads = MPI_THREAD_SINGLE;
  MPI_Initialized(&is_started);
  MPI_Finalized(&is_ended);
  if (is_ended != 0) core::fail("MPI has been ended in this process and cannot be started again");
  if (is_started != 0) {
    MPI_Query_thread(&threads);
  } else {
    check("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads));
    is_owner_ = true;
  }
  if (threads < MPI_THREAD_SERIALIZED)
    core::fail(
        "MPI was started for one thread only; groups call it from their own: MPI_Init_thread must be asked for "
        "MPI_THREAD_SERIALIZED");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  check("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &all_));
  MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);  // duplicates inherit it
}

MpiProcess::~MpiProcess() {
  int is_ended = 0;
  MPI_Finalized(&is_ended);
  if (is_owner_ && is_ended == 0 && finalizes_) MPI_Finalize();
}

void MpiProcess::abandon(std::shared_ptr<void> memory) {
  const std::lock_guard lock(mutex_);
  abandoned_->push_back(std::move(memory));
  finalizes_ = false;
}

void MpiProcess::check(const char* what, int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw TransportError(TransportError::Kind::lost, -1, fmt::format("{}: {}", what, text));
}

void pause_between_tests(MpiWaiting waiting, int tests) {
  constexpr int kYields = 200;  // about 100 us
  constexpr int kLongestSleep = 500;
  if (waiting == MpiWaiting::for_numbers || tests < kYields) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(std::min(kLongestSleep, 10 + (tests - kYields) / 4)));
}

}  // namespace tandem::distributed
