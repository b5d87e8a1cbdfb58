// Strangers at the TCP store's door: who says nothing, garbage, lengths of gigabytes, half of something, or never
// reads.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tandem/distributed/error.h"
#include "tandem/distributed/network/socket.h"
#include "tandem/distributed/stores/store_protocol.h"
#include "tandem/distributed/stores/tcp_store.h"
#include "tandem/distributed/stores/tcp_store_server.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

using store_protocol::Operation;
using store_protocol::Request;

constexpr Milliseconds kNow(0), kLong(60000);
constexpr const char* kHere = "127.0.0.1";

class HostileStore : public ::testing::Test {
 protected:
  Socket stranger() const { return Socket::connect(resolve(kHere, server_.port()).front(), Deadline(kLong)); }
  Socket stranger(const std::string& words) const {
    Socket socket = stranger();
    say(socket, words);
    return socket;
  }
  // All of it, or until the other side has had enough.
  static void say(Socket& socket, std::string_view words) {
    try {
      while (!words.empty() && socket.wait_to_send(Deadline(kLong))) words.remove_prefix(socket.send(words));
    } catch (const PeerError&) {
    }
  }
  // What it hears until the server closes the connection; fails where that does not happen.
  static std::string hear(Socket& socket, const Deadline& deadline) {
    std::string heard;
    try {
      while (socket.wait_to_receive(deadline)) socket.receive(heard);
    } catch (const PeerError&) {
      return heard;
    }
    ADD_FAILURE() << "the connection is still open";
    return heard;
  }
  static bool is_closed(Socket& socket) {
    std::string heard;
    try {
      while (socket.wait_to_receive(Deadline(kNow))) socket.receive(heard);
      return false;
    } catch (const PeerError&) {
      return true;
    }
  }
  void expect_service() {
    TcpStore store(kHere, server_.port(), kLong);
    store.set("k", "v");
    EXPECT_EQ(store.get("k", kNow), "v");
  }

  TcpStoreServer server_{kHere, 0};
  const std::string hello_ = store_protocol::encode_hello();
};

TEST_F(HostileStore, GarbageIsClosed) {
  std::string noise(1 << 20, '\0');
  std::mt19937 random(1);
  for (char& byte : noise) byte = static_cast<char>(random());
  for (const std::string& words : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1, '\0'), noise,
                                   std::string("\x16\x03\x01\x02"), std::string("TANDEM") + noise}) {
    Socket socket = stranger(words);
    EXPECT_EQ(hear(socket, Deadline(kLong)), "");
  }
  Socket older = stranger(store_protocol::encode_hello(0));
  EXPECT_EQ(hear(older, Deadline(kLong)), hello_);
  EXPECT_EQ(server_.clients(), 0);
  expect_service();
}

TEST_F(HostileStore, GarbageAfterAHelloIsClosed) {
  const std::string gigabytes("\0\0\0\xf0", 4);
  const std::string request = store_protocol::encode(Request{Operation::set, "", "", "", 0});
  for (const std::size_t offset : {0, 1, 5, 9}) {
    Socket socket = stranger(hello_ + std::string(request).replace(offset, 4, gigabytes));
    EXPECT_EQ(hear(socket, Deadline(kLong)), hello_) << offset;
  }
  expect_service();
}

TEST_F(HostileStore, WhoSaysNothingIsClosedAfterAWhile) {
  const auto begin = std::chrono::steady_clock::now();
  Socket silent = stranger(), half = stranger(hello_.substr(0, 5)), client = stranger(hello_);
  EXPECT_EQ(hear(silent, Deadline(kLong)), "");
  EXPECT_EQ(hear(half, Deadline(kLong)), "");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, Milliseconds(4900));
  EXPECT_FALSE(is_closed(client));
}

TEST_F(HostileStore, CrowdsAreThinnedAndClientsGetIn) {
  std::vector<Socket> crowd;
  crowd.reserve(200);
  for (int i = 0; i < 200; ++i) crowd.push_back(stranger());
  expect_service();
  // The oldest went first; the client above came after all of them.
  EXPECT_TRUE(is_closed(crowd.front()));
  int closed = 0;
  for (Socket& socket : crowd) closed += is_closed(socket) ? 1 : 0;
  EXPECT_GE(closed, 200 - 64);
}

// Fewer descriptors than strangers are let in: then the oldest of these go.
TEST(HostileStoreDescriptors, MayRunOut) {
  int orders[2], answers[2];
  ASSERT_EQ(pipe(orders), 0);
  ASSERT_EQ(pipe(answers), 0);
  const pid_t child = fork();  // has descriptors of its own, and starts before there are threads
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(orders[1]);
    close(answers[0]);
    std::uint16_t port = 0;
    std::int64_t sum = -1;
    try {
      if (read(orders[0], &port, sizeof(port)) != sizeof(port)) _exit(2);
      std::vector<Socket> crowd;
      crowd.reserve(60);
      for (int i = 0; i < 60; ++i) {
        crowd.push_back(Socket::connect(resolve(kHere, port).front(), Deadline(kLong)));
      }
      TcpStore store(kHere, port, kLong);
      sum = store.add("n", 1);
      if (write(answers[1], &sum, sizeof(sum)) != sizeof(sum)) _exit(3);
      // All connections stay until the parent lets go: a sanitizer looks at an exception's type, which a lost one is on
      // the server, through a pipe, and takes it for wrong where there is no descriptor left.
      if (read(orders[0], &port, sizeof(port)) != 0) _exit(4);
    } catch (...) {
      _exit(5);
    }
    _exit(0);
  }
  close(orders[0]);
  close(answers[1]);
  const TcpStoreServer server(kHere, 0);
  const auto port = server.port();
  const int highest = dup(answers[0]);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(highest) + 20;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(write(orders[1], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  std::int64_t sum = -1;
  EXPECT_EQ(read(answers[0], &sum, sizeof(sum)), static_cast<ssize_t>(sizeof(sum)));
  EXPECT_EQ(sum, 1);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  close(orders[1]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int descriptor : {answers[0], highest}) close(descriptor);
}

TEST_F(HostileStore, HalfARequestHindersNobody) {
  const std::string request = store_protocol::encode(Request{Operation::set, "k", std::string(1 << 20, 'x'), {}, 0});
  std::vector<Socket> halves;
  halves.reserve(4);
  for (const std::size_t length : {std::size_t{1}, std::size_t{20}, std::size_t{21}, request.size() - 1}) {
    halves.push_back(stranger(hello_ + request.substr(0, length)));
  }
  expect_service();
  halves.clear();
  TcpStore store(kHere, server_.port(), kLong);
  EXPECT_EQ(store.get("k", kNow), "v");
}

// A megabyte of answer to each of 22 bytes: the server stops reading instead of collecting answers.
TEST_F(HostileStore, WhoNeverReadsIsNotServedFurther) {
  TcpStore store(kHere, server_.port(), kLong);
  store.set("big", std::string(Store::kMaxValue, 'x'));
  std::string requests = hello_;
  for (int i = 0; i < 1000; ++i) requests += store_protocol::encode(Request{Operation::get, "big", "", {}, 0});
  requests += store_protocol::encode(Request{Operation::add, "n", "", {}, 1});
  Socket greedy = stranger(requests);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(store.add("m", 1), i);
  // It has not come to the end of its requests, since nobody took the answers.
  EXPECT_EQ(store.get("n", Milliseconds(200)), std::nullopt);
  greedy.close();
  expect_service();
}

TEST_F(HostileStore, ClientsWorkAmongAllOfThem) {
  std::atomic<bool> is_over = false;
  std::vector<std::thread> strangers;
  const std::string noise(5000, '\x07');
  const std::string get = store_protocol::encode(Request{Operation::get, "never", "", {}, 1 << 30});
  for (const std::string& words : {std::string(), noise, hello_, hello_ + noise, hello_ + get, hello_.substr(0, 3)}) {
    strangers.emplace_back([&, words] {
      std::vector<Socket> kept;
      while (!is_over) {
        try {
          kept.push_back(stranger(words));
        } catch (const PeerError&) {  // the machine has had enough
        }
        if (kept.size() < 50) continue;
        // With a bang.
        const linger at_once{1, 0};
        for (Socket& socket : kept) {
          setsockopt(socket.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        }
        kept.clear();
      }
    });
  }
  constexpr int kClients = 4, kTimes = 1000;
  std::vector<std::thread> clients;
  clients.reserve(kClients);
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&] {
      TcpStore store(kHere, server_.port(), kLong);
      for (int i = 0; i < kTimes; ++i) store.add("n", 1);
    });
  }
  for (auto& client : clients) client.join();
  is_over = true;
  for (auto& thread : strangers) thread.join();
  EXPECT_EQ(TcpStore(kHere, server_.port(), kLong).get("n", kNow), std::to_string(kClients * kTimes));
}

}  // namespace
}  // namespace tandem::distributed
