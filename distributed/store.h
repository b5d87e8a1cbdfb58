// Store: a small dictionary that all ranks share. Ranks find each other through it (world.h), and it holds the first
// cause of a failure (watch.h). Values are bytes, a few kilobytes at most; tensors never go through it.
//
// Kinds, in distributed/stores/: TCP (one process serves, the others connect), a file, one process's memory, and a
// prefix, which gives each user names of its own in a store of any kind.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tandem::distributed {

using Milliseconds = std::chrono::milliseconds;
/// For messages.
inline double in_seconds(Milliseconds time) { return static_cast<double>(time.count()) / 1000; }

/// Safe from several threads, which wait for each other's calls: who waits long takes a connection of its own.
/// Every call throws PeerError where the store is gone, TimeoutError where it hangs (5 s, and a get's own timeout
/// before), and Error for a key longer than kMaxKey or a value longer than kMaxValue.
class Store {
 public:
  static constexpr std::size_t kMaxKey = 1024, kMaxValue = 1 << 20;

  virtual ~Store() = default;

  virtual void set(const std::string& key, const std::string& value) = 0;
  /// The value; waited for up to `timeout` where it is not there yet. None where it did not come.
  virtual std::optional<std::string> get(const std::string& key, Milliseconds timeout) = 0;
  /// Adds to a decimal number, 0 where the key is missing; returns the sum. Throws Error where the value is no number.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Sets the key to `desired` where it holds `expected` (none: where it is missing). Returns what it holds afterwards.
  virtual std::optional<std::string> compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                                                     const std::string& desired) = 0;
  /// Whether the key was there.
  virtual bool remove(const std::string& key) = 0;

  /// A last will: where this connection ends before the will is taken back (none), the key gets the value, unless it
  /// holds one. Stores without connections, in memory or a file, keep none; returns whether it is kept.
  virtual bool set_at_end(const std::string& key, const std::optional<std::string>& value);

  /// The same store over a connection of its own.
  virtual std::shared_ptr<Store> connect_again() = 0;
  /// "tcp://127.0.0.1:29500", "file:///tmp/run": for messages.
  virtual std::string str() const = 0;
};

}  // namespace tandem::distributed
