// SIGINT, SIGTERM and SIGHUP as a wish to stop, granted between two updates. The second one of a kind ends the process
// at once.
#pragma once

namespace tandem::train {

class StopSignal {
 public:
  /// From now on these signals are caught, in the whole process; until destroyed.
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The number of the signal that came, 0 where none did.
  int received() const;
};

}  // namespace tandem::train
