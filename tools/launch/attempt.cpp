#include "tools/launch/attempt.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tandem/core/thread_count.h"
#include "tools/launch/rank_environment.h"

namespace tandem::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{200};
constexpr int kReadsAtEnd = 64;  // of 64 KiB: more than a pipe holds, should somebody still write

}  // namespace

Attempt::Attempt(const Options& options, int restart, RunStore& store, const Surroundings& surroundings)
    : options_(options), restart_(restart), store_(store), surroundings_(surroundings) {
  start();
}

void Attempt::start() {
  const int threads = core::threads_of_rank(std::nullopt, options_.ranks);
  const auto inherited = inherited_environment();
  for (int local_rank = 0; local_rank < options_.ranks; ++local_rank) {
    const int number = options_.first_rank() + local_rank;
    Rank rank{.number = number,
              .output = RankOutput(rank_prefix(number, options_.world_size()), surroundings_.output),
              .process = nullptr};
    if (options_.log_dir) rank.output.open_log(fmt::format("{}/rank{}.log", *options_.log_dir, number), restart_ > 0);
    const RankPlace place{local_rank, store_.host(), store_.port(), restart_};
    rank.process = std::make_unique<RankProcess>(options_.program, options_.arguments,
                                                 rank_environment(options_, place, threads, inherited),
                                                 surroundings_.signals.mask_of_children(), surroundings_.guard);
    ranks_.push_back(std::move(rank));
  }
}

Verdict Attempt::run() {
  if (options_.nodes > 1) next_look_ = Clock::now();
  while (running() > 0) {
    wait_for_events();
    if (next_look_ && Clock::now() >= *next_look_) {
      next_look_ = Clock::now() + kLook;
      check_early_leavers();
      check_other_nodes();
      name_stalled();
      look_at_progress();
    }
    stop_what_is_left();
  }
  std::optional<std::string> known_cause = foreign_cause_;
  if (!known_cause && has_failed_)
    if (const auto failure = store_.failure()) known_cause = failure->cause;
  Verdict verdict = judge(ends_, options_.world_size(), interruption_, known_cause);
  verdict.is_end_wished = was_asked_to_end_ || interruption_;
  return verdict;
}

int Attempt::running() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.is_running; }));
}

int Attempt::timeout() const {
  std::optional<Clock::time_point> first = escalation_.next();
  if (next_look_ && (!first || *next_look_ < *first)) first = next_look_;
  if (!first) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*first - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
}

void Attempt::wait_for_events() {
  Output& output = surroundings_.output;
  std::vector<pollfd> fds{{surroundings_.signals.fd(), POLLIN, 0},
                          {output.fd_to_poll(Stream::out), POLLOUT, 0},
                          {output.fd_to_poll(Stream::err), POLLOUT, 0}};
  const std::size_t own = fds.size();
  // A rank whose output is not taken from us waits, as it would without us.
  for (const Rank& rank : ranks_) {
    fds.push_back({output.is_full(Stream::out) ? -1 : rank.process->out(), POLLIN, 0});
    fds.push_back({output.is_full(Stream::err) ? -1 : rank.process->err(), POLLIN, 0});
  }
  if (poll(fds.data(), fds.size(), timeout()) < 0 && errno != EINTR) core::fail("poll: {}", std::strerror(errno));
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    for (const Stream stream : {Stream::out, Stream::err}) {
      const pollfd& pipe = fds[own + 2 * i + static_cast<std::size_t>(stream)];
      if (pipe.fd >= 0 && pipe.revents != 0 && ranks_[i].output.read_from(pipe.fd, stream) == RankOutput::Read::ended)
        ranks_[i].process->close_pipe(pipe.fd);
    }
  }
  output.write_some();
  handle_lost_output();
  const Signals::Received received = surroundings_.signals.read();
  for (const int number : received.wishes_to_end) handle_wish_to_end(number);
  for (const int number : received.to_pass_on) pass_on(number);
  if (received.wants_pause) pause();
  if (received.child_ended) take_endings();
}

void Attempt::take_endings() {
  std::vector<std::pair<Rank*, Ending>> ended;
  for (Rank& rank : ranks_)
    if (const auto ending = rank.is_running ? rank.process->take_ending() : std::nullopt)
      ended.emplace_back(&rank, *ending);
  // Of those that are found ended together nobody knows who was first.
  std::stable_sort(ended.begin(), ended.end(), [](const auto& one, const auto& other) {
    return likely_order(one.second) < likely_order(other.second);
  });
  for (const auto& [rank, ending] : ended) handle_end(*rank, ending);
}

void Attempt::handle_end(Rank& rank, const Ending& ending) {
  rank.is_running = false;
  for (const Stream stream : {Stream::out, Stream::err}) {
    const int fd = stream == Stream::out ? rank.process->out() : rank.process->err();
    for (int i = 0; fd >= 0 && i < kReadsAtEnd; ++i)
      if (rank.output.read_from(fd, stream) != RankOutput::Read::some) break;
  }
  rank.output.finish();
  rank.process->close_pipes();
  ends_.push_back({.rank = rank.number, .ending = ending, .kind = rank.kind, .last_error = rank.output.last_error()});
  const RankEnd& end = ends_.back();
  if (!interruption_ && passed_on_ != 0 && end.is_ended_by(passed_on_)) interrupt_by(passed_on_);
  if (interruption_) {
    // One that was not ready to hear the signal: the others, which are, must not wait for it.
    if (ending.signal != 0)
      store_.report(end.rank, fmt::format("rank {} was ended by signal {} ({})", end.rank, ending.signal,
                                          strsignal(ending.signal)));
    return;
  }
  if (end.is_failure()) {
    if (!end.is_echo()) store_.report(end.rank, end.cause());
    fail();
  } else if (running() > 0) {
    check_early_leavers();
    if (!next_look_) next_look_ = Clock::now();  // others may meet later, and miss it then
  }
}

void Attempt::fail() {
  if (has_failed_) return;
  has_failed_ = true;
  const auto now = Clock::now();
  next_look_ = now;
  escalation_.terminate_after(Escalation::Seconds(options_.grace_s), now);
}

// A rank that ended with 0 is missed by those that still run, where they meet in the store, unless it said goodbye.
void Attempt::check_early_leavers() {
  if (has_failed_ || interruption_ || ends_.empty() || running() == 0 || !store_.is_used()) return;
  for (RankEnd& end : ends_) {
    if (end.is_failure() || store_.has_said_goodbye(end.rank)) continue;
    end.kind = RankEnd::Kind::left_early;
    store_.report(end.rank, end.cause());
    fail();
    return;
  }
}

void Attempt::check_other_nodes() {
  if (options_.nodes == 1 || has_failed_ || interruption_) return;
  const auto failure = store_.failure();
  if (!failure) return;
  foreign_cause_ = failure->cause;
  fail();
}

// Where others gave up waiting, a stopped rank is whom they waited for.
void Attempt::name_stalled() {
  const bool others_waited =
      foreign_cause_ || std::any_of(ends_.begin(), ends_.end(), [](const RankEnd& end) { return end.is_echo(); });
  if (!has_failed_ || !others_waited) return;
  for (Rank& rank : ranks_) {
    if (!rank.is_running || rank.kind != RankEnd::Kind::by_itself || !rank.process->is_stopped()) continue;
    rank.kind = RankEnd::Kind::stalled;
    rank.process->send_to_group(SIGKILL);
  }
}

}  // namespace tandem::launch
