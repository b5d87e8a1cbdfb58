#include "tandem/train/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>

namespace tandem::train {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds kPlainInterval{5}, kTerminalInterval{0.1};

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}

Progress::Progress(const std::string& mode, std::int64_t total_steps, StopSignal& stop, std::FILE* out)
    : mode_(choose(mode, out)), total_steps_(total_steps), stop_(stop), out_(out) {}

Progress::~Progress() {
  if (line_open_) print("\n");
}

Progress::Mode Progress::choose(const std::string& mode, std::FILE* out) {
  if (mode == "none" || !out) return Mode::none;
  if (mode == "plain") return Mode::plain;
  return mode == "terminal" || isatty(fileno(out)) ? Mode::terminal : Mode::plain;
}

void Progress::update(const UpdateReport& report, const distributed::Reducer&) {
  const auto now = Clock::now();
  if (updates_++ == 0) {
    first_end_ = now;
  } else {
    rows_after_first_ += report.rows;
  }
  if (mode_ == Mode::none) return;
  const bool is_due = now - shown_ >= (mode_ == Mode::terminal ? kTerminalInterval : kPlainInterval);
  if (updates_ > 1 && !is_due && !report.is_last) return;
  shown_ = now;
  if (mode_ == Mode::terminal) {
    print(fmt::format("\r{}\x1b[K{}", text(report, now), report.is_last ? "\n" : ""));
    line_open_ = !report.is_last;
  } else {
    print(text(report, now) + '\n');
  }
}

std::string Progress::text(const UpdateReport& report, Clock::time_point now) const {
  std::string text =
      fmt::format("step {}/{}  epoch {}  loss {:.4f}", report.step, total_steps_, report.epoch, report.loss);
  if (updates_ < 2) return text;
  const double seconds = Seconds(now - first_end_).count();
  const double left = seconds / static_cast<double>(updates_ - 1) * static_cast<double>(total_steps_ - report.step);
  return text + fmt::format("  {:.0f} samples/s  {} left", static_cast<double>(rows_after_first_) / seconds,
                            format_duration(left));
}

void Progress::evaluation(std::int64_t step, std::int64_t epoch, const Evaluation& result) {
  const std::string when = step > 0 ? fmt::format("epoch {}, step {}: ", epoch, step) : "";  // else it only evaluates
  if (!result.has_items) return line(when + "the test data have nothing to predict");
  line(when + fmt::format("test loss {:.4f}, accuracy {:.2f} %, after {}", result.loss, result.accuracy * 100,
                          format_duration(Seconds(Clock::now() - start_).count())));
}

void Progress::line(const std::string& text) {
  clear_line();
  print(text + '\n');
}

void Progress::clear_line() {
  if (line_open_) print("\r\x1b[K");
  line_open_ = false;
}

void Progress::print(const std::string& text) {
  if (!out_ || (std::fwrite(text.data(), 1, text.size(), out_) == text.size() && std::fflush(out_) == 0)) return;
  stop_.lose_output("stdout", errno);
  out_ = nullptr;
}

}  // namespace tandem::train
