// The parts of `launch` that can be tried alone: verdicts, lines, the ranks' environment.
#include <gtest/gtest.h>

#include <csignal>

#include "tools/launch/escalation.h"
#include "tools/launch/line_splitter.h"
#include "tools/launch/rank_environment.h"
#include "tools/launch/rank_output.h"
#include "tools/launch/verdict.h"
#include "tandem/core/process/repeats.h"

namespace tandem::launch {
namespace {

using Kind = RankEnd::Kind;
using Lines = std::vector<std::string>;

RankEnd end_of(int rank, int code, int signal = 0, Kind kind = Kind::by_itself, std::string last_error = "") {
  return {.rank = rank, .ending = {.code = code, .signal = signal}, .kind = kind, .last_error = std::move(last_error)};
}

TEST(LaunchVerdict, all_well) {
  const Verdict verdict = judge({end_of(0, 0), end_of(1, 0)}, 2, {}, {});
  EXPECT_EQ(verdict.code, 0);
  EXPECT_EQ(verdict.line, "");
}

TEST(LaunchVerdict, the_first_that_is_no_echo) {
  Verdict verdict = judge({end_of(2, 3), end_of(1, 1, 0, Kind::by_itself, "p: error: x"), end_of(0, 5)}, 3, {}, {});
  EXPECT_EQ(verdict.code, 1);
  EXPECT_EQ(verdict.line, "rank 1 ended with exit code 1: p: error: x; the other ranks have ended");
  verdict = judge({end_of(0, 0, SIGSEGV), end_of(1, 0, SIGTERM, Kind::told)}, 2, {}, {});
  EXPECT_EQ(verdict.code, 128 + SIGSEGV);
  EXPECT_TRUE(
      verdict.line.starts_with("rank 0 was killed by signal 11 (Segmentation fault); the other ranks were stopped"));
}

TEST(LaunchVerdict, of_those_that_ended_together_causes_come_before_echoes) {
  const std::vector<Ending> order{
      {.code = 0, .signal = 0}, {.code = 0, .signal = SIGKILL}, {.code = 1}, {.signal = SIGPIPE}, {.code = 3}};
  for (std::size_t i = 1; i < order.size(); ++i) EXPECT_LT(likely_order(order[i - 1]), likely_order(order[i])) << i;
}

TEST(LaunchVerdict, only_echoes_take_the_cause_from_the_store) {
  const std::vector<RankEnd> ends{end_of(0, 3, 0, Kind::by_itself, "p: error: lost"),
                                  end_of(1, 0, SIGKILL, Kind::told)};
  EXPECT_EQ(judge(ends, 4, {}, "rank 3 was killed by signal 9 (Killed)").line,
            "rank 3 was killed by signal 9 (Killed); the other ranks were stopped");
  EXPECT_EQ(judge(ends, 4, {}, "rank 3 was killed").code, 3);
  const Verdict unknown = judge(ends, 4, {}, {});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_EQ(unknown.line, "rank 0 ended with exit code 3: p: error: lost; the other ranks were stopped");
}

TEST(LaunchVerdict, early_and_stalled_ranks_are_failures) {
  Verdict verdict = judge({end_of(1, 0, 0, Kind::left_early), end_of(0, 3)}, 2, {}, "other");
  EXPECT_EQ(verdict.code, 1);
  EXPECT_TRUE(verdict.line.starts_with("rank 1 left before the end (exit code 0)")) << verdict.line;
  verdict = judge({end_of(0, 3), end_of(2, 0, SIGKILL, Kind::stalled)}, 3, {}, "rank 2 does not respond");
  EXPECT_EQ(verdict.code, 128 + SIGKILL);
  EXPECT_TRUE(verdict.line.starts_with("rank 2 is stopped (SIGSTOP)")) << verdict.line;
}

TEST(LaunchVerdict, an_interruption_comes_first) {
  const Verdict verdict = judge({end_of(0, 0, SIGINT, Kind::told)}, 1, Interruption{130, "ended by signal 2"}, {});
  EXPECT_EQ(verdict.code, 130);
  EXPECT_EQ(verdict.line, "ended by signal 2");
}

TEST(LaunchVerdict, of_an_interruption_the_ranks_know_more) {
  const std::string words = "interrupted after step 7; checkpoint saved: c; continue with --resume";
  const std::vector<RankEnd> ends{end_of(1, 130, 0, Kind::told, "p: error: interrupted after step 7"),
                                  end_of(0, 130, 0, Kind::told, "p: error: " + words)};
  Interruption interruption{130, "ended by signal 2", SIGINT};
  EXPECT_EQ(judge(ends, 2, interruption, {}).line, words);
  interruption.is_signal_from_outside = false;
  EXPECT_EQ(judge(ends, 2, interruption, {}).line, "ended by signal 2: " + words);
}

constexpr Escalation::Clock::time_point at(int seconds) {
  return Escalation::Clock::time_point(std::chrono::seconds(seconds));
}

TEST(Repeats, within_a_moment_count_once) {
  using Wish = core::Repeats::Wish;
  core::Repeats repeats;
  EXPECT_EQ(repeats.take(at(10)), Wish::first);
  EXPECT_EQ(repeats.take(at(10)), Wish::repeat);
  EXPECT_EQ(repeats.take(at(11)), Wish::repeat);
  EXPECT_EQ(repeats.take(at(12)), Wish::second);
}

TEST(LaunchEscalation, term_then_kill) {
  Escalation escalation;
  EXPECT_EQ(escalation.take_due(at(0)), std::nullopt);
  escalation.terminate_after(std::chrono::seconds(5), at(0));
  escalation.terminate_after(std::chrono::seconds(1), at(0));
  EXPECT_EQ(escalation.take_due(at(4)), std::nullopt);
  EXPECT_EQ(escalation.take_due(at(5)), SIGTERM);
  EXPECT_EQ(escalation.take_due(at(6)), std::nullopt);
  EXPECT_EQ(escalation.take_due(at(7)), SIGKILL);
  EXPECT_EQ(escalation.take_due(at(100)), std::nullopt);
}

TEST(LaunchEscalation, progress_gives_time_and_pauses_take_none) {
  Escalation escalation;
  escalation.kill_without_progress(std::chrono::seconds(10), at(0));
  escalation.note_progress("step 1", at(5));
  escalation.note_progress("step 1", at(9));
  EXPECT_EQ(escalation.take_due(at(14)), std::nullopt);
  escalation.note_progress("step 2", at(14));
  EXPECT_EQ(escalation.take_due(at(23)), std::nullopt);
  escalation.postpone(std::chrono::seconds(100));
  EXPECT_EQ(escalation.take_due(at(123)), std::nullopt);
  EXPECT_EQ(escalation.take_due(at(124)), SIGKILL);
}

TEST(LaunchEscalation, a_second_wish_does_not_wait) {
  Escalation escalation;
  escalation.kill_without_progress(std::chrono::seconds(10), at(0));
  escalation.kill_now(at(2));
  EXPECT_EQ(escalation.take_due(at(2)), SIGKILL);
}

TEST(LaunchVerdict, a_cause_is_one_line_of_bounded_length) {
  RankEnd end = end_of(1, 4);
  end.last_error = "a\nb\x1b[31m";
  EXPECT_EQ(end.cause(), "rank 1 ended with exit code 4: a b [31m");
  end.last_error = std::string(100000, 'x');
  EXPECT_LT(end.cause().size(), 1100U);
  EXPECT_LT(judge({end_of(0, 3)}, 1, {}, std::string(100000, 'x')).line.size(), 1100U);
}

Lines split(const std::vector<std::string>& pieces) {
  Lines lines;
  LineSplitter splitter;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  for (const std::string& piece : pieces) splitter.feed(piece, keep);
  splitter.finish(keep);
  return lines;
}

TEST(LaunchLines, ends_of_all_kinds) {
  EXPECT_EQ(split({"a\nb\n\nc"}), (Lines{"a", "b", "", "c"}));
  EXPECT_EQ(split({"a\r\nb\r\n"}), (Lines{"a", "b"}));
  EXPECT_EQ(split({"a\r", "\nb"}), (Lines{"a", "b"}));
  EXPECT_EQ(split({"a\r\n\nb"}), (Lines{"a", "", "b"}));
  EXPECT_EQ(split({"\r1 %\r2 %\r3 %\n"}), (Lines{"1 %", "2 %", "3 %"}));
  EXPECT_EQ(split({"sp", "li", "t\n"}), Lines{"split"});
  EXPECT_EQ(split({std::string("a\0b\n", 4)}), Lines{std::string("a\0b", 3)});
}

TEST(LaunchLines, long_ones_come_in_pieces) {
  const std::string piece(LineSplitter::kMaxLine, 'x');
  EXPECT_EQ(split({piece + "\n"}), Lines{piece});
  EXPECT_EQ(split({piece + "y\nz"}), (Lines{piece, "y", "z"}));
  EXPECT_EQ(split({piece.substr(1), "xyy", piece}), (Lines{piece, "yy" + piece.substr(2), "xx"}));
}

TEST(LaunchLines, prefix_and_error_lines) {
  EXPECT_EQ(rank_prefix(1, 2), "[1] ");
  EXPECT_EQ(rank_prefix(1, 10), "[1] ");
  EXPECT_EQ(rank_prefix(1, 11), "[ 1] ");
  EXPECT_TRUE(is_error_line("train: error: no"));
  for (const char* line : {"error: no", "the train: error: no", ": error: no", "train: warning: error: no", ""})
    EXPECT_FALSE(is_error_line(line)) << line;
}

TEST(LaunchEnvironment, takes_the_place_of_what_is_there) {
  Options options;
  options.ranks = 2;
  options.nodes = 3;
  options.node_rank = 1;
  const RankPlace place{.local_rank = 1, .master_addr = "h", .master_port = 5, .restart = 4};
  const auto all =
      rank_environment(options, place, 7, {"RANK=9", "RANKS=1", "OMP_NUM_THREADS=2", "TORCHELASTIC_X=1", "A=b"});
  const auto count = [&](const std::string& entry) { return std::count(all.begin(), all.end(), entry); };
  for (const char* entry :
       {"RANK=3", "WORLD_SIZE=6", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=5",
        "TANDEM_LAUNCH=1", "TANDEM_RESTART=4", "OMP_NUM_THREADS=2", "OMP_WAIT_POLICY=passive", "RANKS=1", "A=b"})
    EXPECT_EQ(count(entry), 1) << entry;
  EXPECT_EQ(all.size(), 12U);
}

}  // namespace
}  // namespace tandem::launch
