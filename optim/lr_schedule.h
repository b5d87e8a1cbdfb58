// Learning-rate schedules: the rate as a pure function of the number of the update.
#pragma once

#include <cstdint>
#include <string_view>

#include "tandem/core/state_dict.h"
#include "tandem/optim/optimizer.h"

namespace tandem::optim {

enum class LrScheduleKind { constant, linear, cosine, step };

/// "constant", "linear", ...; throws listing them where `name` is none of them.
LrScheduleKind parse_lr_schedule(std::string_view name);

struct LrScheduleOptions {
  LrScheduleKind kind = LrScheduleKind::constant;
  double base_lr = 0.1;
  std::int64_t warmup_steps = 0;  ///< the rate grows linearly: base/warmup, 2 base/warmup, ..., base
  std::int64_t total_steps = 0;   ///< of the run, warm-up included; needed by linear and cosine
  double final_factor = 0;        ///< linear and cosine end at base_lr times this
  std::int64_t step_size = 0;     ///< kind step: every step_size updates after warm-up ...
  double gamma = 0.1;             ///< ... the rate is multiplied by gamma
};

/// Whether the rate depends on total_steps.
bool depends_on_length(LrScheduleKind kind);

/// The rate of update `step`, counted from 0. linear and cosine reach their end at total_steps, i.e. after the last
/// update. Throws Error as LrSchedule does.
double learning_rate(const LrScheduleOptions& options, std::int64_t step);

/// Keeps the count and sets an optimizer's rate before each update: `schedule.apply(); sgd.step(); schedule.advance();`
class LrSchedule {
 public:
  /// `optimizer` must outlive the schedule. Throws Error if an option is out of its range, or one that the kind needs
  /// is missing.
  LrSchedule(Optimizer& optimizer, const LrScheduleOptions& options);

  double lr() const { return learning_rate(options_, step_); }
  void apply() { optimizer_.set_lr(lr()); }
  void advance() { ++step_; }
  std::int64_t step() const { return step_; }

  /// "step", and "total_steps" if the rate depends on it.
  core::StateDict state_dict() const;
  /// Throws Error if the state's total_steps are not this schedule's: the rate would jump. A state without them is
  /// taken as it is. Then nothing has been changed.
  void load_state_dict(const core::StateDict& state);

 private:
  Optimizer& optimizer_;
  LrScheduleOptions options_;
  std::int64_t step_ = 0;
};

}  // namespace tandem::optim
