// Clients and servers of the TCP store that come late, go away, hang, or are none.
#include "tandem/distributed/stores/tcp_store.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tandem/distributed/error.h"
#include "tandem/distributed/network/socket.h"
#include "tandem/distributed/stores/prefix_store.h"
#include "tandem/distributed/stores/store_protocol.h"
#include "tandem/distributed/stores/tcp_store_server.h"
#include "tests/errors.h"
#include "tests/held_port.h"

namespace tandem::distributed {
namespace {

constexpr Milliseconds kNow(0), kLong(60000);
constexpr const char* kHere = "127.0.0.1";

Milliseconds time_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begin);
}

// Listens, and says the same to each of the first `count` who come.
class Pretender {
 public:
  explicit Pretender(std::string words)
      : words_(std::move(words)), thread_([this] {
          while (true) {
            listener_.wait_to_receive(Deadline(kLong));
            bool is_out_of_descriptors = false;
            auto accepted = listener_.accept(is_out_of_descriptors);
            if (!accepted) return;  // shut down
            accepted->send(words_);
            accepted_.push_back(std::move(*accepted));
          }
        }) {}
  ~Pretender() {
    shutdown(listener_.descriptor(), SHUT_RDWR);
    thread_.join();
  }
  std::uint16_t port() const { return listener_.local_address().port(); }

 private:
  Socket listener_ = Socket::listen(resolve(kHere, 0).front());
  std::string words_;
  std::vector<Socket> accepted_;
  std::thread thread_;
};

TEST(TcpStore, NobodyServes) {
  const HeldPort port;
  try {
    TcpStore store(kHere, port.number(), Milliseconds(300));
    ADD_FAILURE() << "connected to nobody";
  } catch (const TimeoutError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        fmt::format("nobody serves a store at 127.0.0.1:{} (connection refused) after 0.3 s: is rank 0 (or launch) "
                    "running, and is the address right?",
                    port.number()));
  }
}

// Its name may come into DNS later.
TEST(TcpStore, AHostWithoutAddressIsTriedUntilTheTimeout) {
  const std::string no_address =
      "nobody serves a store at no-such-host.invalid:29500 (the host 'no-such-host.invalid' has no address: ";
  const auto took = time_of([&] {
    EXPECT_THROW(
        try { TcpStore("no-such-host.invalid", 29500, Milliseconds(300)); } catch (const TimeoutError& error) {
          tandem::testing::expect_contains(error.what(), no_address);
          throw;
        },
        TimeoutError);
  });
  EXPECT_GE(took, Milliseconds(300));
}

TEST(TcpStore, TheServerMayComeLater) {
  const HeldPort port;
  auto client = std::async(std::launch::async, [&] { return TcpStore(kHere, port.number(), kLong).add("n", 1); });
  std::this_thread::sleep_for(Milliseconds(200));
  const TcpStoreServer server(kHere, port.number());
  EXPECT_EQ(client.get(), 1);
}

TEST(TcpStore, WhoAnswersMayBeNoStore) {
  const Pretender web("HTTP/1.1 400 Bad Request\r\n\r\n");
  TANDEM_EXPECT_ERROR(TcpStore(kHere, web.port(), kLong),
                      fmt::format("who listens at tcp://127.0.0.1:{} is no store of Tandem: it says 'HTTP/1.1 400 Bad "
                                  "Request",
                                  web.port()));
  const Pretender newer(store_protocol::encode_hello(9));
  TANDEM_EXPECT_ERROR(TcpStore(kHere, newer.port(), kLong), "speaks version 9 of the protocol, this process version 1");
  const Pretender silent("");
  TANDEM_EXPECT_ERROR(TcpStore(kHere, silent.port(), kLong),
                      "is no store of Tandem, or it hangs: it said nothing for 5 s");
}

// As one that was stopped (SIGSTOP): the system keeps its connections.
TEST(TcpStore, AServerThatHangsIsATimeout) {
  const Pretender hanging(store_protocol::encode_hello());
  TcpStore store(kHere, hanging.port(), kLong);
  EXPECT_GE(time_of([&] { EXPECT_THROW(store.get("k", Milliseconds(500)), TimeoutError); }), Milliseconds(5400));
  const std::string hangs = fmt::format("the store at tcp://127.0.0.1:{} hangs: it does not answer", hanging.port());
  EXPECT_LT(time_of([&] { TANDEM_EXPECT_ERROR(store.set("k", "v"), hangs); }), Milliseconds(4000));
}

TEST(TcpStore, AServerThatTalksNonsenseIsNone) {
  const Pretender mad(store_protocol::encode_hello() + std::string(100, '\xff'));
  TANDEM_EXPECT_ERROR(TcpStore(kHere, mad.port(), Milliseconds(100)), "it says more than it was asked");
}

TEST(TcpStore, AServerThatGoesEndsAWaitAtOnce) {
  auto server = std::make_unique<TcpStoreServer>(kHere, 0);
  TcpStore store(kHere, server->port(), kLong);
  const auto waiting_store = store.connect_again();
  auto waiting = std::async(std::launch::async, [&] { return waiting_store->get("k", Milliseconds::max()); });
  EXPECT_EQ(waiting.wait_for(Milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(server->clients(), 2);
  const std::string gone =
      fmt::format("the store at tcp://127.0.0.1:{} is gone: connection closed by the other side", server->port());
  const auto time = time_of([&] {
    server.reset();
    TANDEM_EXPECT_ERROR(waiting.get(), gone);
  });
  EXPECT_LT(time, Milliseconds(4000));
  EXPECT_THROW(store.set("k", "v"), PeerError);
  TANDEM_EXPECT_ERROR(store.set("k", "v"), gone);
  TANDEM_EXPECT_ERROR(waiting_store->get("k", kNow), gone);
}

TEST(TcpStoreServer, NoticesClientsThatLeave) {
  TcpStoreServer server(kHere, 0);
  {
    TcpStore one(kHere, server.port(), kLong), two(kHere, server.port(), kLong);
    EXPECT_EQ(server.clients(), 2);
    EXPECT_EQ(one.local_address(), kHere);
  }
  for (int i = 0; i < 1000 && server.clients() > 0; ++i) std::this_thread::sleep_for(Milliseconds(10));
  EXPECT_EQ(server.clients(), 0);
}

TEST(TcpStoreServer, KeepsAWillUntilItsConnectionEnds) {
  TcpStoreServer server("127.0.0.1", 0);
  TcpStore reader("127.0.0.1", server.port(), kLong);
  {
    TcpStore taken_back("127.0.0.1", server.port(), kLong), late("127.0.0.1", server.port(), kLong);
    reader.set("held", "by another");
    EXPECT_TRUE(taken_back.set_at_end("a", "gone"));
    EXPECT_TRUE(taken_back.set_at_end("a", std::nullopt));
    EXPECT_TRUE(late.set_at_end("held", "too late"));
  }
  auto dying = std::make_unique<TcpStore>("127.0.0.1", server.port(), kLong);
  EXPECT_TRUE(
      PrefixStore("group", std::shared_ptr<Store>(std::shared_ptr<Store>(), dying.get())).set_at_end("b", "died"));
  EXPECT_EQ(reader.get("group/b", Milliseconds(0)), std::nullopt);
  std::thread end([&] { dying.reset(); });
  EXPECT_EQ(reader.get("group/b", kLong), "died");  // which wakes who waits for it
  end.join();
  EXPECT_EQ(reader.get("a", Milliseconds(0)), std::nullopt);
  EXPECT_EQ(reader.get("held", Milliseconds(0)), "by another");
}

TEST(TcpStoreServer, APortInUse) {
  const TcpStoreServer server(kHere, 0);
  TANDEM_EXPECT_ERROR(
      TcpStoreServer(kHere, server.port()),
      fmt::format("port {} on 127.0.0.1 is in use: choose another port, or stop what listens there", server.port()));
  TANDEM_EXPECT_ERROR(TcpStoreServer("203.0.113.77", 0), "203.0.113.77 is no address of this machine");
}

TEST(TcpStoreServer, ThePortIsFreeAgainAtOnce) {
  std::uint16_t port = 0;
  for (int i = 0; i < 3; ++i) {
    const TcpStoreServer server(kHere, port);
    port = server.port();
    TcpStore store(kHere, port, kLong);
    EXPECT_EQ(store.add("n", 1), 1);
  }
}

TEST(TcpStoreServer, TwoAtOnceShareNothing) {
  const TcpStoreServer server_a(kHere, 0), server_b(kHere, 0);
  TcpStore a(kHere, server_a.port(), kLong), b(kHere, server_b.port(), kLong);
  a.set("k", "a");
  b.set("k", "b");
  EXPECT_EQ(a.get("k", kNow), "a");
  EXPECT_EQ(b.get("k", kNow), "b");
}

TEST(TcpStoreServer, ListensOnAllThatANameStandsFor) {
  const TcpStoreServer server("localhost", 0);
  EXPECT_EQ(TcpStore("localhost", server.port(), kLong).add("n", 1), 1);
  int n = 1;
  for (const Address& address : resolve("localhost", server.port())) {
    bool is_here = true;
    try {
      Socket::listen(resolve(address.host(), 0).front());
    } catch (const core::Error&) {
      is_here = false;
    }
    if (!is_here) continue;
    EXPECT_EQ(TcpStore(address.host(), server.port(), kLong).add("n", 1), ++n);
  }
  EXPECT_GT(n, 1);
}

TEST(TcpStoreServer, SpeaksIPv6) {
  std::optional<TcpStoreServer> server;
  try {
    server.emplace("[::1]", 0);
  } catch (const core::Error& error) {  // this machine has none
    testing::expect_contains(error.what(), "cannot listen on [::1]:0: ");
    return;
  }
  TcpStore store("::1", server->port(), kLong);
  EXPECT_EQ(store.add("n", 1), 1);
  EXPECT_EQ(store.str(), fmt::format("tcp://[::1]:{}", server->port()));
  EXPECT_EQ(store.local_address(), "::1");
  EXPECT_EQ(store.connect_again()->add("n", 1), 2);
}

}  // namespace
}  // namespace tandem::distributed
