// What the TCP store's client and server say to each other.
//
// Both begin with a hello: a magic and the version of the protocol. Then the client sends requests, one at a time, and
// gets one reply to each. Numbers are little-endian.
//
//   hello    magic (8 bytes), version (u32)
//   request  operation (u8), length of key, value, expected (u32 each; expected: all ones for none), number (i64),
//            then the bytes of key, value, expected
//   reply    status (u8), length of value (u32), number (i64), then the bytes of value
//
// Bytes come from the network: lengths are checked before anything is made of them, and no memory is taken for bytes
// that have not come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::distributed::store_protocol {

inline constexpr std::uint32_t kVersion = 1;
/// In place of a version: the server has no room for one more client.
inline constexpr std::uint32_t kFull = 0xffffffff;
inline constexpr std::size_t kHelloSize = 12;

enum class Operation : std::uint8_t { set = 1, get, add, compare_and_set, remove, set_at_end };

struct Request {
  Operation operation = Operation::get;
  std::string key, value;
  std::optional<std::string> expected;  ///< compare_and_set
  std::int64_t number = 0;  ///< add: the amount; get: the timeout in milliseconds; set_at_end: 0 takes it back
};

struct Reply {
  enum class Status : std::uint8_t { found = 1, missing, error };
  Status status = Status::found;
  std::string value;        ///< what the key holds; error: the message
  std::int64_t number = 0;  ///< add: the sum; remove: 1 where it was there
};

std::string encode_hello(std::uint32_t version = kVersion);
std::string encode(const Request& request);
std::string encode(const Reply& reply);

/// Take one message off the front of `bytes`; none where it is not complete yet. Throw Error, as soon as it shows,
/// where the bytes are no such message.
std::optional<std::uint32_t> take_hello(std::string_view& bytes);  ///< the version
std::optional<Request> take_request(std::string_view& bytes);
std::optional<Reply> take_reply(std::string_view& bytes);

}  // namespace tandem::distributed::store_protocol
