// The store of a run, as the launcher uses it: served here, or by the launcher of node 0.
//
// Nothing here throws once there is a store: that it has gone is for the ranks to say.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tandem/distributed/stores/tcp_store_server.h"
#include "tandem/distributed/watch.h"
#include "tools/launch/options.h"

namespace tandem::launch {

class RunStore {
 public:
  /// Serves, or waits for the launcher of node 0. Throws Error, UsageError where the launchers do not fit together.
  explicit RunStore(const Options& options);
  ~RunStore();

  const std::string& host() const { return host_; }
  std::uint16_t port() const { return port_; }
  std::string address() const;

  /// Says why the run fails, unless somebody has said something before.
  void report(int rank, const std::string& cause);
  std::optional<distributed::Failure> failure();
  bool has_said_goodbye(int rank);
  /// Whether some rank has met the others here.
  bool is_used();
  /// What a rank has told the others that it does: changes with each step and collective. Empty if it tells nothing.
  std::string progress(int rank);
  /// Waits until ranks on other nodes have left, at most some seconds.
  void wait_for_others();

 private:
  void check_nodes(const Options& options);
  distributed::Store& client();
  bool has(const std::string& key, bool otherwise);
  /// What `f` returns, given the store; `otherwise` where that is gone, now or before: it is not waited for again.
  template <class F, class T>
  T ask(F&& f, T otherwise);

  std::string host_;
  std::uint16_t port_;
  std::unique_ptr<distributed::TcpStoreServer> server_;
  std::shared_ptr<distributed::Store> client_;
  bool is_lost_ = false;
};

}  // namespace tandem::launch
