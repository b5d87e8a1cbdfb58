#include "tandem/distributed/watch.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/core/start_thread.h"
#include "tandem/distributed/awake_clock.h"
#include "tandem/distributed/beat.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/failure_callbacks.h"
#include "tandem/distributed/neighbour.h"

namespace tandem::distributed {
namespace {

using Clock = AwakeClock;

constexpr std::size_t kMaxNamed = 5;  // ranks in one message
constexpr Milliseconds kSlice{100};   // a wait that a failure may end looks for one so often
constexpr Milliseconds kNow{0};

}  // namespace

class Watch::Implementation {
 public:
  Implementation(std::shared_ptr<Store> store, int rank, int size, WatchOptions options);
  ~Implementation() { stop(); }

  void note(const std::string& group, std::int64_t sequence, const std::string& operation);
  void note_step(std::int64_t step);
  Failure report(const Failure& failure);
  std::optional<Failure> failure() const;
  std::shared_ptr<void> on_failure(std::function<void(const Failure&)> callback);
  std::string describe(int rank, const std::string& group, std::int64_t sequence);
  std::string describe_missing(const std::string& group, std::int64_t sequence);
  void leave(Milliseconds timeout);

 private:
  void stop();
  void run();
  void beat();
  std::optional<Beat> beat_of(int rank);
  std::optional<std::string> why_missing(int rank, const std::string& group, std::int64_t sequence);
  void throw_if_needed_by(int rank);
  void wait_for_goodbye(int rank, Clock::time_point deadline, Milliseconds timeout);
  Failure store_lost(const std::exception& error) const;
  Failure learn(const Failure& failure);

  const int rank_, size_;
  const WatchOptions options_;
  std::shared_ptr<Store> store_;       // the owner's: leave() waits on it
  std::shared_ptr<Store> connection_;  // the watch's own: only calls that do not wait

  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false, leaving_ = false;
  std::optional<Failure> failure_;
  FailureCallbacks callbacks_;
  Beat own_;

  Neighbour neighbour_;  // of the thread
  std::thread thread_;
};

Watch::Implementation::Implementation(std::shared_ptr<Store> store, int rank, int size, WatchOptions options)
    : rank_(rank),
      size_(size),
      options_(std::move(options)),
      store_(std::move(store)),
      neighbour_(rank, size, options_.beat, options_.stale) {
  if (size_ == 1) return;
  connection_ = store_->connect_again();
  if (options_.leaves_will) {
    const auto cause = fmt::format("rank {} has died: its process ended without goodbye", rank_);
    connection_->set_at_end(kFailureKey, Failure{rank_, rank_, cause}.encode());
  }
  beat();
  thread_ = core::start_thread("that beats", [this] { return std::thread([this] { run(); }); });
}

void Watch::Implementation::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watch::Implementation::run() {
  Clock::time_point next = Clock::now();
  for (;;) {
    next = std::max(next + options_.beat, Clock::now());
    {
      std::unique_lock lock(mutex_);
      if (stopped_.wait_until(lock, next, [this] { return stop_; })) return;
    }
    try {
      beat();
      if (const auto known = connection_->get(kFailureKey, kNow)) {
        learn(Failure::decode(*known));
        return;
      }
      if (const auto seen = neighbour_.look(*connection_)) {
        learn(report_failure(*connection_, *seen));
        return;
      }
    } catch (const std::exception& error) {
      learn(store_lost(error));
      return;
    }
  }
}

void Watch::Implementation::beat() {
  std::string value;
  {
    const std::lock_guard lock(mutex_);
    ++own_.count;
    value = own_.encode();
  }
  connection_->set(beat_key(rank_), value);
}

Failure Watch::Implementation::store_lost(const std::exception& error) const {
  const std::string store = connection_->str();
  if (store.starts_with("file:")) return {-1, rank_, fmt::format("the store {} is lost: {}", store, error.what())};
  const std::string& server = options_.store_server;
  const int rank = server == "rank 0" ? 0 : -1;
  if (dynamic_cast<const TimeoutError*>(&error)) {
    return {rank, rank_,
            fmt::format("the store at {} does not answer: {} is stopped or cannot be reached", store,
                        server.empty() ? "whoever serves it (launch, or rank 0)" : server + ", which serves it,")};
  }
  // The store says itself that it is gone, and then why.
  std::string why = error.what();
  if (const std::string known = fmt::format("the store at {} is gone: ", store); why.starts_with(known)) {
    why.erase(0, known.size());
  }
  return {rank, rank_,
          fmt::format("the store at {} is gone: {} has ended ({})", store,
                      server.empty() ? "whoever served it (launch, or rank 0)" : server + ", which served it,", why)};
}

/// The first failure that this rank has heard of stays; returns it.
Failure Watch::Implementation::learn(const Failure& failure) {
  std::vector<std::shared_ptr<FailureCallbacks::Subscription>> subscriptions;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    failure_ = failure;
    subscriptions = callbacks_.take();
  }
  FailureCallbacks::call(subscriptions, failure);
  return failure;
}

void Watch::Implementation::note(const std::string& group, std::int64_t sequence, const std::string& operation) {
  const std::lock_guard lock(mutex_);
  auto& operations = own_.operations;
  const auto found =
      std::find_if(operations.begin(), operations.end(), [&](const auto& o) { return o.group == group; });
  if (found == operations.end()) {
    operations.insert(operations.begin(), Beat::Operation{group, sequence, operation});
    return;
  }
  found->sequence = sequence;
  found->operation = operation;
  std::rotate(operations.begin(), found, found + 1);
}

void Watch::Implementation::note_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  own_.step = step;
}

std::optional<Failure> Watch::Implementation::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Failure Watch::Implementation::report(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    // Ranks that have left close their connections: a failure only to who still needs them.
    if (leaving_ && failure.rank != rank_) return failure;
  }
  if (size_ == 1) return learn(failure);
  try {
    return learn(report_failure(*connection_, failure));
  } catch (const std::exception& error) {
    // Whoever lost a peer and the store at once has seen an echo of the store's end, unless it was its own doing.
    return learn(failure.rank == rank_ ? failure : store_lost(error));
  }
}

std::shared_ptr<void> Watch::Implementation::on_failure(std::function<void(const Failure&)> callback) {
  std::optional<Failure> known;
  std::shared_ptr<FailureCallbacks::Subscription> subscription;
  {
    const std::lock_guard lock(mutex_);
    known = failure_;
    subscription = callbacks_.add(std::move(callback));
  }
  if (known) FailureCallbacks::call({subscription}, *known);
  return FailureCallbacks::handle(std::move(subscription));
}

std::optional<Beat> Watch::Implementation::beat_of(int rank) {
  const auto value = connection_->get(beat_key(rank), kNow);
  return value ? Beat::decode(*value) : std::nullopt;
}

/// None where the rank has begun the operation.
std::optional<std::string> Watch::Implementation::why_missing(int rank, const std::string& group,
                                                              std::int64_t sequence) {
  const auto beat = beat_of(rank);
  if (!beat) return fmt::format("rank {} never came", rank);
  const Beat::Operation* const operation = beat->find(group);
  if (operation && operation->sequence >= sequence) return std::nullopt;
  if (connection_->get(goodbye_key(rank), kNow)) return fmt::format("rank {} has left ({})", rank, beat->describe());
  return fmt::format("rank {} never began it ({})", rank, beat->describe());
}

std::string Watch::Implementation::describe(int rank, const std::string& group, std::int64_t sequence) {
  const auto deadline = Clock::now() + 2 * options_.beat + kSlice;
  try {
    while (size_ > 1 && Clock::now() < deadline) {
      const auto beat = beat_of(rank);
      const Beat::Operation* const operation = beat ? beat->find(group) : nullptr;
      if (operation && operation->sequence >= sequence) return operation->operation;
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, options_.beat / 4, [this] { return stop_; })) break;
    }
  } catch (const std::exception&) {  // the store is gone, and somebody will say so
  }
  return "";
}

std::string Watch::Implementation::describe_missing(const std::string& group, std::int64_t sequence) {
  if (size_ == 1) return "";
  // What a rank began just now comes with its next beat, so who seems to be missing gets time for two.
  const auto deadline = Clock::now() + 2 * options_.beat + kSlice;
  std::vector<std::pair<int, std::string>> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) missing.emplace_back(rank, "");
  }
  try {
    for (;;) {
      std::erase_if(missing, [&](auto& entry) {
        const auto why = why_missing(entry.first, group, sequence);
        if (why) entry.second = *why;
        return !why;
      });
      if (missing.empty() || Clock::now() >= deadline) break;
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, options_.beat / 4, [this] { return stop_; })) break;
    }
  } catch (const std::exception& error) {
    return fmt::format("who is missing cannot be told: {}", error.what());
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(missing.size(), kMaxNamed); ++i) text += (i ? "; " : "") + missing[i].second;
  if (missing.size() > kMaxNamed) text += fmt::format("; and {} ranks more", missing.size() - kMaxNamed);
  return text;
}

/// Nobody who has come to the end takes part in a collective that `rank` has begun meanwhile. Messages between two
/// ranks may be none of this one's business.
void Watch::Implementation::throw_if_needed_by(int rank) {
  const auto beat = beat_of(rank);
  if (!beat) return;
  for (const Beat::Operation& theirs : beat->operations) {
    if (theirs.operation.starts_with("send ") || theirs.operation.starts_with("recv ")) continue;
    {
      const std::lock_guard lock(mutex_);
      const Beat::Operation* const own = own_.find(theirs.group);
      if (own != nullptr && own->sequence >= theirs.sequence) continue;
    }
    const auto cause =
        fmt::format("rank {} left before the end: rank {} waits for it in {}", rank_, rank, theirs.operation);
    throw PeerError(report({rank_, rank_, cause}).cause);
  }
}

void Watch::Implementation::wait_for_goodbye(int rank, Clock::time_point deadline, Milliseconds timeout) {
  while (!store_->get(goodbye_key(rank), kSlice)) {
    if (const auto known = failure()) throw PeerError(known->cause);
    throw_if_needed_by(rank);
    if (Clock::now() < deadline) continue;
    std::vector<int> missing;
    for (int other = rank; other < size_; ++other) {
      if (!store_->get(goodbye_key(other), kNow)) missing.push_back(other);
    }
    if (missing.empty()) return;
    const auto beat = beat_of(missing.front());
    const bool more = missing.size() > kMaxNamed;
    missing.resize(std::min(missing.size(), kMaxNamed));
    throw TimeoutError(fmt::format(
        "{} {}{} did not come to the end within {:g} s ({})", missing.size() == 1 ? "rank" : "ranks",
        fmt::join(missing, ", "), more ? ", ..." : "", in_seconds(timeout), beat ? beat->describe() : "it never came"));
  }
}

void Watch::Implementation::leave(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw PeerError(failure_->cause);
    leaving_ = true;
  }
  if (size_ == 1) return;
  try {
    if (options_.leaves_will) connection_->set_at_end(kFailureKey, std::nullopt);
    connection_->set(goodbye_key(rank_), "");
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) wait_for_goodbye(rank, deadline, timeout);
    }
  } catch (const core::Error& error) {
    if (const auto known = failure()) throw PeerError(known->cause);
    throw;
  }
  stop();  // The store may end from here on.
}

Watch::Watch(std::shared_ptr<Store> store, int rank, int size, const WatchOptions& options)
    : implementation_(std::make_unique<Implementation>(std::move(store), rank, size, options)) {}
Watch::~Watch() = default;

void Watch::note(const std::string& group, std::int64_t sequence, const std::string& operation) {
  implementation_->note(group, sequence, operation);
}
void Watch::note_step(std::int64_t step) { implementation_->note_step(step); }
Failure Watch::report(const Failure& failure) { return implementation_->report(failure); }
std::optional<Failure> Watch::failure() const { return implementation_->failure(); }
std::shared_ptr<void> Watch::on_failure(std::function<void(const Failure&)> callback) {
  return implementation_->on_failure(std::move(callback));
}
std::string Watch::describe(int rank, const std::string& group, std::int64_t sequence) {
  return implementation_->describe(rank, group, sequence);
}
std::string Watch::describe_missing(const std::string& group, std::int64_t sequence) {
  return implementation_->describe_missing(group, sequence);
}
void Watch::leave(Milliseconds timeout) { implementation_->leave(timeout); }

}  // namespace tandem::distributed
