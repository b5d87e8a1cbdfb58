// Progress on stdout: loss, rate, and time left while training, a line for each evaluation.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tandem/train/listener.h"
#include "tandem/train/stop_signal.h"

namespace tandem::train {

/// "2 h 05 min", "3 min 20 s", "12 s".
std::string format_duration(double seconds);

/// On a terminal one line that is written over; elsewhere a plain line every few seconds.
class Progress final : public Listener {
 public:
  /// `mode`: "terminal" is one line that changes, "plain" a line every few seconds, "none" evaluations only, "auto"
  /// what suits `out`. `out` must outlive it; null: nothing is printed at all. `stop` learns if it takes no more.
  Progress(const std::string& mode, std::int64_t total_steps, StopSignal& stop, std::FILE* out = stdout);
  /// Ends a line that is still being written over, so that an error begins its own.
  ~Progress() override;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const UpdateReport& report, const distributed::Reducer& reducer) override;
  void evaluation(std::int64_t step, std::int64_t epoch, const Evaluation& result) override;
  /// A line of its own, in every mode.
  void line(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Mode { plain, terminal, none };

  static Mode choose(const std::string& mode, std::FILE* out);
  std::string text(const UpdateReport& report, Clock::time_point now) const;
  void clear_line();
  void print(const std::string& text);

  Mode mode_;
  std::int64_t total_steps_;
  StopSignal& stop_;
  std::FILE* out_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_;
  bool line_open_ = false;

  // Rate and time left leave out the first update, in which memory is still being gathered.
  Clock::time_point first_end_;
  std::int64_t updates_ = 0;
  std::int64_t rows_after_first_ = 0;
};

}  // namespace tandem::train
