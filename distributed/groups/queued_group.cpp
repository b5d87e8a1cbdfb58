// What becomes of a collective, and what is said when it fails.
#include "tandem/distributed/groups/queued_group.h"

#include <fmt/format.h>

#include <utility>

#include "tandem/core/recorder.h"
#include "tandem/distributed/error.h"

namespace tandem::distributed {

namespace {

using Kind = Collective::Kind;

// "all_reduce 17 of gradients, bucket 3 (conv1.weight)".
std::string title_of(const Collective& collective, std::uint64_t sequence, const std::string& group) {
  const bool is_between_two = collective.kind == Kind::send || collective.kind == Kind::recv;
  std::string title = name(collective.kind);
  title += is_between_two ? fmt::format(" {} rank {}", collective.kind == Kind::send ? "to" : "from", collective.peer)
                          : fmt::format(" {}", sequence);
  title += " of " + group;
  if (!collective.label.empty()) title += ", " + collective.label;
  return title;
}

class TransportRunner final : public JobRunner {
 public:
  TransportRunner(std::unique_ptr<Transport> transport, int rank, int size)
      : transport_(std::move(transport)), runner_(*transport_, rank, size) {}

  std::int64_t run(const Job& job, std::uint64_t sequence, Transport::Clock::time_point deadline) override {
    return runner_.run(job, sequence, deadline);
  }
  std::string current() const override { return runner_.signature().str(); }
  void end() override { transport_->end(); }
  void forget() override { transport_->forget(); }
  void abort() override { transport_->abort(); }

 private:
  std::unique_ptr<Transport> transport_;
  CollectiveRunner runner_;
};

std::unique_ptr<JobRunner> over(std::unique_ptr<Transport> transport, int rank, int size) {
  if (size == 1) return nullptr;
  return std::make_unique<TransportRunner>(std::move(transport), rank, size);
}

}  // namespace

QueuedGroup::QueuedGroup(const std::string& name, int rank, int size, GroupOptions options,
                         std::unique_ptr<Transport> transport, Duplicate duplicate)
    : QueuedGroup(name, rank, size, std::move(options), over(std::move(transport), rank, size), std::move(duplicate)) {}

QueuedGroup::QueuedGroup(const std::string& name, int rank, int size, GroupOptions options,
                         std::unique_ptr<JobRunner> runner, Duplicate duplicate)
    : ProcessGroup(name, rank, size),
      options_(std::move(options)),
      runner_(std::move(runner)),
      duplicate_(std::move(duplicate)) {
  if (size == 1) return;
  if (options_.watch)
    watching_ = options_.watch->on_failure([this](const Failure& failure) { end_with(failure.cause); });
  lane_ = std::make_unique<Lane<Issued>>([this](const Issued& issued) { run_one(issued); });
}

QueuedGroup::~QueuedGroup() {
  watching_.reset();
  if (unfinished_ > 0) end_with("the group was destroyed on this rank");
  lane_.reset();
  const bool in_good_order = !cause() && std::uncaught_exceptions() == 0;
  if (options_.ended && runner_ && in_good_order) options_.ended->keep(std::move(runner_));
}

void QueuedGroup::abort(const std::string& cause) {
  end_with(options_.watch ? options_.watch->report({rank(), rank(), cause}).cause : cause);
}

void QueuedGroup::end_with(const std::string& cause) {
  set_cause(cause);
  if (runner_) runner_->abort();
}

WorkPtr QueuedGroup::submit(Collective collective) {
  auto work = std::make_shared<Work>();
  Job job(std::move(collective));
  if (size() == 1) {
    run_at_once(job, *work);
    return work;
  }
  ++unfinished_;
  lane_->push({std::move(job), work});
  return work;
}

void QueuedGroup::run_at_once(const Job& job, Work& work) {
  work.start();
  std::exception_ptr error;
  if (const auto aborted = cause()) {
    error = std::make_exception_ptr(
        PeerError(fmt::format("{}: {}", title_of(job.collective, sequence_, name()), *aborted)));
  } else {
    run_alone(job);
  }
  ++sequence_;
  work.finish(error);
}

void QueuedGroup::finish(const Issued& issued, const std::exception_ptr& error, std::int64_t bytes) {
  --unfinished_;  // first: the caller may destroy the group as soon as it knows
  issued.work->finish(error, bytes);
}

void QueuedGroup::run_one(const Issued& issued) {
  const Collective& collective = issued.job.collective;
  const char* what = distributed::name(collective.kind);
  const core::RecordScope scope(what, "comm");
  const std::string title = title_of(collective, sequence_, name());
  issued.work->start();
  try {
    if (const auto aborted = cause()) throw TransportError(TransportError::Kind::aborted, -1, *aborted);
    if (options_.watch) options_.watch->note(name(), static_cast<std::int64_t>(sequence_), title);
    const std::int64_t bytes = runner_->run(issued.job, sequence_, Transport::Clock::now() + options_.timeout);
    finish(issued, nullptr, bytes);
  } catch (const TransportError& error) {
    const std::exception_ptr failure = failure_of(error, title);
    runner_->forget();  // before the caller may free its memory
    finish(issued, failure);
    return;
  } catch (...) {  // memory
    set_cause("this rank failed in " + title);
    runner_->abort();
    runner_->forget();
    finish(issued, std::current_exception());
    return;
  }
  if (collective.kind != Kind::send && collective.kind != Kind::recv) ++sequence_;
  try {
    runner_->end();
  } catch (const TransportError&) {
    // A peer that is gone when all is done: the next collective will say so.
  }
}

// " (rank 1: barrier 17 of world/ddp, synced backward 3 failed on rank 1: ...)", where the watch knows.
std::string QueuedGroup::in_words_of(int peer) const {
  const std::string words =
      options_.watch ? options_.watch->describe(peer, name(), static_cast<std::int64_t>(sequence_)) : "";
  return words.empty() ? "" : fmt::format(" (rank {}: {})", peer, words);
}

std::exception_ptr QueuedGroup::failure_of(const TransportError& error, const std::string& title) {
  const int peer = error.peer;
  std::string reason;
  int whose = peer;
  switch (error.kind) {
    case TransportError::Kind::aborted:
      return std::make_exception_ptr(PeerError(fmt::format("{}: {}", title, cause().value_or("aborted"))));
    case TransportError::Kind::lost:
      reason = peer < 0 ? error.what() : fmt::format("lost the connection to rank {}: {}", peer, error.what());
      break;
    case TransportError::Kind::mismatch:
      reason =
          fmt::format("ranks differ: rank {} is in {}, rank {} in {}", peer, error.what(), rank(), runner_->current());
      reason += in_words_of(peer);
      whose = -1;
      break;
    case TransportError::Kind::deadline: {
      reason = fmt::format("not done after {} s", in_seconds(options_.timeout));
      if (peer >= 0) reason += fmt::format(", waiting for rank {}", peer);
      const std::string missing =
          options_.watch ? options_.watch->describe_missing(name(), static_cast<std::int64_t>(sequence_)) : "";
      if (!missing.empty()) reason += ": " + missing;
      break;
    }
  }
  const std::string own_cause = fmt::format("{} (noticed by rank {} in {})", reason, rank(), title);
  std::string first = own_cause;
  if (options_.watch) first = options_.watch->report({.rank = whose, .reporter = rank(), .cause = own_cause}).cause;
  first = set_cause(first);
  runner_->abort();
  const std::string message = fmt::format("{}: {}", title, first == own_cause ? reason : first);
  switch (error.kind) {
    case TransportError::Kind::deadline: return std::make_exception_ptr(TimeoutError(message));
    case TransportError::Kind::mismatch: return std::make_exception_ptr(core::Error(message));
    default: return std::make_exception_ptr(PeerError(message));
  }
}

std::optional<std::string> QueuedGroup::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

std::string QueuedGroup::set_cause(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (!cause_) cause_ = cause;
  return *cause_;
}

}  // namespace tandem::distributed
