#include "tandem/distributed/world.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "tandem/core/parallel.h"
#include "tandem/core/start_thread.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/groups/ended_groups.h"
#include "tandem/distributed/groups/gloo_group.h"
#include "tandem/distributed/groups/mpi_group.h"
#include "tandem/distributed/groups/thread_group.h"
#include "tandem/distributed/network/address.h"
#include "tandem/distributed/notice.h"
#include "tandem/distributed/published_port.h"
#include "tandem/distributed/rendezvous.h"
#include "tandem/distributed/served_store.h"
#include "tandem/distributed/stores/file_store.h"
#include "tandem/distributed/stores/memory_store.h"
#include "tandem/distributed/stores/tcp_store.h"

namespace tandem::distributed {
namespace {

using Clock = AwakeClock;

constexpr const char *kLeftKey = "left", *kAllLeftKey = "all_left";
constexpr Milliseconds kLastGoodbye{2000};  // the server's patience with ranks that are about to leave

/// Gloo writes to connections that the other side may have closed; without this the process would end by SIGPIPE
/// instead of an error. Who handles that signal keeps doing so.
void ignore_broken_pipes() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

class World::Implementation {
 public:
  Implementation(const RankSettings& settings, const WatchOptions& watch_options);
  /// A rank that is a thread.
  Implementation(const RankSettings& settings, std::shared_ptr<Store> store, std::shared_ptr<ThreadNetwork> network);
  ~Implementation();

  std::shared_ptr<ProcessGroup> make_group(const std::string& name, std::optional<Backend> backend);
  void leave();

  const RankSettings settings;

 private:
  std::unique_ptr<ServedStore> serving_;  // before its clients, which end first
  std::unique_ptr<PublishedPort> published_;

 public:
  std::shared_ptr<Store> store;
  std::shared_ptr<Watch> watch;
  std::vector<Member> members;
  int local_rank = 0, local_size = 1;

 private:
  void connect(Identity& identity, Clock::time_point deadline);
  void connect_over_tcp(Identity& identity, Clock::time_point deadline);
  void join(const Identity& identity, WatchOptions watch_options, Clock::time_point deadline);
  void count_local_ranks(const std::vector<Identity>& identities);
  void say_last_goodbye();
  void end_without_leave();

  const int exceptions_ = std::uncaught_exceptions();
  std::shared_ptr<ThreadNetwork> network_;  // none: ranks are processes
  std::string data_address_;                // for Gloo
  std::set<std::string> group_names_;
  std::shared_ptr<EndedGroups> ended_ = std::make_shared<EndedGroups>();
  bool has_left_ = false;
};

World::Implementation::Implementation(const RankSettings& given, const WatchOptions& watch_options) : settings(given) {
  const auto deadline = Clock::now() + settings.timeout;
  if (!settings.warning.empty()) print_notice("warning: " + settings.warning);
  Identity identity = own_identity();
  if (settings.interface) identity.address = address_of_interface(*settings.interface);
  connect(identity, deadline);
  join(identity, watch_options, deadline);
}

World::Implementation::Implementation(const RankSettings& given, std::shared_ptr<Store> shared,
                                      std::shared_ptr<ThreadNetwork> network)
    : settings(given), store(std::move(shared)), network_(std::move(network)) {
  join(own_identity(), {}, Clock::now() + settings.timeout);
}

void World::Implementation::connect(Identity& identity, Clock::time_point deadline) {
  switch (settings.meeting) {
    case RankSettings::Meeting::none:
      if (settings.world_size > 1) core::fail("world: {} ranks need a place to meet", settings.world_size);
      store = std::make_shared<MemoryStore>();
      return;
    case RankSettings::Meeting::file: store = std::make_shared<FileStore>(settings.path); return;
    case RankSettings::Meeting::tcp: connect_over_tcp(identity, deadline);
  }
}

void World::Implementation::connect_over_tcp(Identity& identity, Clock::time_point deadline) {
  using Tenths = std::chrono::duration<std::int64_t, std::deci>;  // of seconds: messages name what was waited for
  const auto left = [&] {
    return std::max<Milliseconds>(std::chrono::ceil<Tenths>(deadline - Clock::now()), Tenths(0));
  };
  std::uint16_t port = settings.port;
  if (settings.serves_store) {
    await_name(settings.host, left());
    serving_ = std::make_unique<ServedStore>(settings.host, settings.port);
    port = serving_->port();
    if (!settings.port_file.empty()) published_ = std::make_unique<PublishedPort>(settings.port_file, port);
  } else if (!settings.port_file.empty()) {
    port = await_port(settings.port_file, left());
  }
  const auto client = std::make_shared<TcpStore>(settings.host, port, left());
  if (identity.address.empty()) identity.address = client->local_address();
  store = client;
}

void World::Implementation::join(const Identity& identity, WatchOptions watch_options, Clock::time_point deadline) {
  if (watch_options.store_server.empty()) watch_options.store_server = settings.store_server;
  watch_options.leaves_will = settings.store_server != "launch";
  if (settings.world_size > 1) claim_rank(*store, settings, identity);
  watch = std::make_shared<Watch>(store, settings.rank, settings.world_size, watch_options);
  std::vector<Identity> identities{identity};
  try {
    const std::string place = serving_ ? serving_->describe() : "";
    if (settings.world_size > 1) identities = meet_members(*store, *watch, settings, identity, place, deadline);
    published_.reset();  // all have read it, and a later run of the same mpirun has a port of its own
    data_address_ = choose_data_address(identities, settings.rank);
  } catch (const TimeoutError&) {
    throw;
  } catch (const PeerError& error) {  // Of the store, perhaps: the first cause says more.
    throw PeerError(watch->report({-1, settings.rank, error.what()}).cause);
  } catch (const core::Error& error) {
    watch->report({settings.rank, settings.rank, error.what()});
    throw;
  }
  if (settings.world_size == 1 && !network_) network_ = std::make_shared<ThreadNetwork>(1);
  for (const Identity& other : identities) members.push_back({other.host, other.process});
  count_local_ranks(identities);
}

void World::Implementation::count_local_ranks(const std::vector<Identity>& identities) {
  const auto own = identities.begin() + (settings.world_size > 1 ? settings.rank : 0);
  const auto is_local = [&](const Identity& other) { return other.machine == own->machine; };
  const auto before = std::count_if(identities.begin(), own, is_local);
  const auto all = std::count_if(identities.begin(), identities.end(), is_local);
  local_rank = settings.local_rank.value_or(static_cast<int>(before));
  local_size = settings.local_world_size.value_or(static_cast<int>(all));
}

std::shared_ptr<ProcessGroup> World::Implementation::make_group(const std::string& name, std::optional<Backend> asked) {
  const Backend backend =
      settings.world_size == 1 ? Backend::memory : asked.value_or(network_ ? Backend::memory : Backend::gloo);
  if (backend == Backend::memory && !network_)
    core::fail("group {}: ranks that are processes share no memory; use Gloo or MPI", name);
  if (backend == Backend::mpi && network_)
    core::fail("group {}: MPI's ranks are processes, these are threads; use memory or Gloo", name);
  if (has_left_) core::fail("group {}: rank {} has left the world already", name, settings.rank);
  if (!group_names_.insert(name).second) core::fail("group {}: there is one of this name already", name);
  const GroupOptions options{settings.timeout, watch, ended_};
  try {
    if (backend == Backend::memory) return network_->join(name, settings.rank, options);
    if (backend == Backend::mpi) return make_mpi_group(name, {settings.rank, settings.world_size}, options);
    ignore_broken_pipes();
    // A connection of its own, since it waits for others on it.
    return make_gloo_group(name, {settings.rank, settings.world_size, store->connect_again(), data_address_}, options);
  } catch (const PeerError& error) {
    const Failure first = watch->report({-1, settings.rank, error.what()});
    if (first.cause == error.what()) throw;
    throw PeerError(fmt::format("group {}: {}", name, first.cause));
  } catch (const core::Error& error) {  // others may wait in this group for a rank that will not come
    watch->report({settings.rank, settings.rank, fmt::format("rank {}: {}", settings.rank, error.what())});
    throw;
  }
}

void World::Implementation::leave() {
  if (has_left_) return;
  try {
    watch->leave(settings.timeout);
  } catch (const TimeoutError& error) {
    watch->report({settings.rank, settings.rank, fmt::format("rank {} gave up: {}", settings.rank, error.what())});
    throw;
  }
  has_left_ = true;
  ended_->let_go();
  if (settings.world_size > 1) say_last_goodbye();
}

/// All have come to their end; now the store may end as soon as nobody needs it.
void World::Implementation::say_last_goodbye() {
  try {
    const bool is_last = store->add(kLeftKey, 1) == settings.world_size;
    if (is_last && settings.meeting == RankSettings::Meeting::file) {
      std::error_code ignored;
      std::filesystem::remove(settings.path, ignored);
    } else if (is_last) {
      store->set(kAllLeftKey, "");
    } else if (serving_) {
      store->get(kAllLeftKey, kLastGoodbye);
    }
  } catch (const core::Error&) {  // The store ended before its answer came.
  }
  if (serving_) serving_->need_not_linger();
}

World::Implementation::~Implementation() {
  try {
    if (!has_left_ && watch && !watch->failure()) end_without_leave();
  } catch (const std::exception& error) {  // A destructor's caller cannot be told.
    print_notice(fmt::format("world: error: {}", error.what()));
  }
}

/// With an exception on its way this rank has failed; else it has come to its end.
void World::Implementation::end_without_leave() {
  if (std::uncaught_exceptions() == exceptions_) return leave();
  watch->report({settings.rank, settings.rank,
                 fmt::format("rank {} left before the end because of an exception", settings.rank)});
}

World::World(const RankSettings& settings, const WatchOptions& watch_options)
    : implementation_(std::make_unique<Implementation>(settings, watch_options)) {}
World::World(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
World::~World() = default;

int World::rank() const { return implementation_->settings.rank; }
int World::size() const { return implementation_->settings.world_size; }
int World::local_rank() const { return implementation_->local_rank; }
int World::local_size() const { return implementation_->local_size; }
const std::vector<Member>& World::members() const { return implementation_->members; }
std::shared_ptr<ProcessGroup> World::make_group(const std::string& name, std::optional<Backend> backend) {
  return implementation_->make_group(name, backend);
}
Store& World::store() { return *implementation_->store; }
Watch& World::watch() { return *implementation_->watch; }
void World::fail(const std::string& what) {
  watch().report({rank(), rank(), fmt::format("rank {}: {}", rank(), what)});
}
void World::leave() { implementation_->leave(); }

namespace {

/// The exception that run_as_threads throws: the first that is no echo of another rank's, else the first.
class FirstCause {
 public:
  void add(std::exception_ptr error, bool is_echo) {
    const std::lock_guard lock(mutex_);
    if (error_ && (is_echo || !is_echo_)) return;
    error_ = std::move(error);
    is_echo_ = is_echo;
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  bool is_echo_ = false;
};

/// Notes the exception that is being handled, and returns its message.
std::string note_exception(FirstCause& cause) {
  try {
    throw;
  } catch (const PeerError& error) {
    cause.add(std::current_exception(), true);
    return error.what();
  } catch (const std::exception& error) {
    cause.add(std::current_exception(), false);
    return error.what();
  } catch (...) {
    cause.add(std::current_exception(), false);
    return "an exception of unknown type";
  }
}

}  // namespace

void run_as_threads(int size, const std::function<void(World&)>& rank_main, Milliseconds timeout) {
  if (size < 1) core::fail("run_as_threads: {} ranks, must be at least 1", size);
  const auto store = std::make_shared<MemoryStore>();
  const auto network = std::make_shared<ThreadNetwork>(size);
  FirstCause cause;
  const auto run_rank = [&](int rank) {
    core::set_num_threads(1);
    RankSettings settings;
    settings.rank = rank;
    settings.world_size = size;
    settings.timeout = timeout;
    settings.source = "rank";
    try {
      World world(std::make_unique<World::Implementation>(settings, store, network));
      try {
        rank_main(world);
        world.leave();
      } catch (...) {
        world.fail(note_exception(cause));
      }
    } catch (...) {
      note_exception(cause);
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    try {
      threads.push_back(core::start_thread("that is a rank", [&] { return std::thread(run_rank, rank); }));
    } catch (...) {
      report_failure(*store, {rank, rank, fmt::format("rank {}: {}", rank, note_exception(cause))});
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  cause.rethrow();
}

}  // namespace tandem::distributed
