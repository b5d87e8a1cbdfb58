#include "tools/launch/run_store.h"

#include <chrono>
#include <csignal>
#include <thread>

#include "tandem/distributed/beat.h"
#include "tandem/distributed/network/address.h"
#include "tandem/distributed/rendezvous.h"
#include "tandem/distributed/stores/tcp_store.h"

namespace tandem::launch {
namespace {

using distributed::Milliseconds;
using std::chrono::steady_clock;

constexpr Milliseconds kNodesMeet{300000};  // launchers are started by hand, or by a queue
constexpr Milliseconds kConnect{10000};     // to a server in this process
constexpr Milliseconds kOthersLeave{5000};
constexpr Milliseconds kLook{20};

// Threads that are started meanwhile hear no signals.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

RunStore::RunStore(const Options& options)
    : host_(options.master_addr.value_or("127.0.0.1")), port_(options.master_port.value_or(0)) {
  if (options.node_rank == 0) {
    const NoSignals guard;  // the server's thread must not be the one that a signal ends
    server_ = std::make_unique<distributed::TcpStoreServer>(host_, port_);
    port_ = server_->port();
  } else {
    client_ = std::make_shared<distributed::TcpStore>(host_, port_, kNodesMeet);
  }
  if (options.nodes > 1) check_nodes(options);
}

RunStore::~RunStore() = default;

// That nobody else is this node, and that all start as many ranks: their numbers follow from that.
void RunStore::check_nodes(const Options& options) {
  const std::string own = fmt::format("{} nodes with {} ranks each", options.nodes, options.ranks);
  const auto first = client().compare_and_set("launch/nodes", std::nullopt, own);
  const std::string node_key = fmt::format("launch/node/{}", options.node_rank);
  if (first && *first != own) {
    // The others wait for this node, unless there is one already and this is a mistake beside a run that goes well.
    if (!client().get(node_key, Milliseconds(0)))
      report(-1,
             fmt::format("node {} was told of {}, another node of {}: -n and --nnodes must be the same on all nodes",
                         options.node_rank, own, *first));
    fail_usage("this launcher was told of {}, another one of {}: -n and --nnodes must be the same on all nodes", own,
               *first);
  }
  if (client().add(node_key, 1) > 1)
    fail_usage("--node-rank {}: another launcher is that node; each needs a number of its own from 0 to {}",
               options.node_rank, options.nodes - 1);
}

distributed::Store& RunStore::client() {
  if (!client_) client_ = std::make_shared<distributed::TcpStore>(host_, port_, kConnect);
  return *client_;
}

std::string RunStore::address() const { return "tcp://" + distributed::host_and_port(host_, port_); }

template <class F, class T>
T RunStore::ask(F&& f, T otherwise) {
  if (is_lost_) return otherwise;
  try {
    return f(client());
  } catch (const core::Error&) {
    is_lost_ = true;
    return otherwise;
  }
}

void RunStore::report(int rank, const std::string& cause) {
  const distributed::Failure failure{.rank = rank, .reporter = -1, .cause = cause};
  ask([&](distributed::Store& store) { return distributed::report_failure(store, failure); }, failure);
}

std::optional<distributed::Failure> RunStore::failure() {
  using Found = std::optional<distributed::Failure>;
  const auto look = [](distributed::Store& store) -> Found {
    const auto text = store.get(distributed::kFailureKey, Milliseconds(0));
    return text ? Found(distributed::Failure::decode(*text)) : std::nullopt;
  };
  return ask(look, Found());
}

bool RunStore::has_said_goodbye(int rank) { return has(distributed::goodbye_key(rank), true); }
bool RunStore::is_used() { return has(distributed::kWorldSizeKey, false); }

bool RunStore::has(const std::string& key, bool otherwise) {
  return ask([&](distributed::Store& store) { return store.get(key, Milliseconds(0)).has_value(); }, otherwise);
}

std::string RunStore::progress(int rank) {
  const auto look = [&](distributed::Store& store) -> std::string {
    const auto text = store.get(distributed::beat_key(rank), Milliseconds(0));
    auto beat = text ? distributed::Beat::decode(*text) : std::nullopt;
    if (!beat) return "";
    beat->count = 0;  // a rank that hangs beats all the same
    return beat->encode();
  };
  return ask(look, std::string());
}

void RunStore::wait_for_others() {
  client_.reset();
  if (!server_) return;
  const auto end = steady_clock::now() + kOthersLeave;
  while (server_->clients() > 0 && steady_clock::now() < end) std::this_thread::sleep_for(kLook);
}

}  // namespace tandem::launch
