#include "tandem/distributed/stores/store_protocol.h"

#include <algorithm>

#include "tandem/distributed/error.h"
#include "tandem/distributed/store.h"
#include "tandem/distributed/stores/bytes.h"

namespace tandem::distributed::store_protocol {
namespace {

constexpr std::string_view kMagic = "TANDEM\x1bS";  // 8 bytes that begin no text protocol
constexpr std::uint32_t kNone = 0xffffffff;
constexpr std::size_t kRequestHead = 1 + 3 * 4 + 8, kReplyHead = 1 + 4 + 8;

std::string take_text(std::string_view& bytes, std::size_t length) {
  std::string text(bytes.substr(0, length));
  bytes.remove_prefix(length);
  return text;
}

void check_length(const char* what, std::size_t length, std::size_t most) {
  if (length > most) core::fail("store protocol: a {} of {} bytes, more than {}", what, length, most);
}

std::uint8_t take_kind(std::string_view& bytes, const char* what, std::uint8_t last) {
  const auto kind = take_number<std::uint8_t>(bytes);
  if (kind < 1 || kind > last) core::fail("store protocol: {} {} is unknown", what, kind);
  return kind;
}

}  // namespace

std::string encode_hello(std::uint32_t version) {
  std::string bytes(kMagic);
  append_number(bytes, version);
  return bytes;
}

std::string encode(const Request& request) {
  std::string bytes;
  append_number(bytes, static_cast<std::uint8_t>(request.operation));
  append_number(bytes, static_cast<std::uint32_t>(request.key.size()));
  append_number(bytes, static_cast<std::uint32_t>(request.value.size()));
  append_number(bytes, request.expected ? static_cast<std::uint32_t>(request.expected->size()) : kNone);
  append_number(bytes, request.number);
  return bytes + request.key + request.value + request.expected.value_or("");
}

std::string encode(const Reply& reply) {
  std::string bytes;
  append_number(bytes, static_cast<std::uint8_t>(reply.status));
  append_number(bytes, static_cast<std::uint32_t>(reply.value.size()));
  append_number(bytes, reply.number);
  return bytes + reply.value;
}

std::optional<std::uint32_t> take_hello(std::string_view& bytes) {
  const std::size_t known = std::min(bytes.size(), kMagic.size());
  if (bytes.substr(0, known) != kMagic.substr(0, known)) core::fail("store protocol: the hello is missing");
  if (bytes.size() < kHelloSize) return std::nullopt;
  bytes.remove_prefix(kMagic.size());
  return take_number<std::uint32_t>(bytes);
}

std::optional<Request> take_request(std::string_view& bytes) {
  if (bytes.size() < kRequestHead) return std::nullopt;
  std::string_view rest = bytes;
  Request request;
  constexpr auto kLast = static_cast<std::uint8_t>(Operation::set_at_end);
  request.operation = static_cast<Operation>(take_kind(rest, "operation", kLast));
  const auto key = take_number<std::uint32_t>(rest), value = take_number<std::uint32_t>(rest),
             expected = take_number<std::uint32_t>(rest);
  request.number = take_number<std::int64_t>(rest);
  check_length("key", key, Store::kMaxKey);
  check_length("value", value, Store::kMaxValue);
  if (expected != kNone) check_length("value", expected, Store::kMaxValue);
  const std::size_t expected_bytes = expected == kNone ? 0 : expected;
  if (rest.size() < std::size_t{key} + value + expected_bytes) return std::nullopt;
  request.key = take_text(rest, key);
  request.value = take_text(rest, value);
  if (expected != kNone) request.expected = take_text(rest, expected);
  bytes = rest;
  return request;
}

std::optional<Reply> take_reply(std::string_view& bytes) {
  if (bytes.size() < kReplyHead) return std::nullopt;
  std::string_view rest = bytes;
  Reply reply;
  constexpr auto kLast = static_cast<std::uint8_t>(Reply::Status::error);
  reply.status = static_cast<Reply::Status>(take_kind(rest, "status", kLast));
  const auto value = take_number<std::uint32_t>(rest);
  reply.number = take_number<std::int64_t>(rest);
  check_length("value", value, Store::kMaxValue);
  if (rest.size() < value) return std::nullopt;
  reply.value = take_text(rest, value);
  bytes = rest;
  return reply;
}

}  // namespace tandem::distributed::store_protocol
