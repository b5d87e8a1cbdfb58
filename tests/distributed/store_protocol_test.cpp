#include "tandem/distributed/stores/store_protocol.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tandem/distributed/store.h"
#include "tests/errors.h"

namespace tandem::distributed::store_protocol {
namespace {

const std::string binary("\0\xff k\n", 5);

TEST(StoreProtocol, RequestsComeBack) {
  for (const auto& expected : {std::optional<std::string>(), std::optional<std::string>(""), std::optional(binary)}) {
    const Request sent{Operation::compare_and_set, binary, "value", expected, INT64_MIN};
    const std::string bytes = encode(sent) + "rest";
    std::string_view view = bytes;
    const auto got = take_request(view);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->operation, sent.operation);
    EXPECT_EQ(got->key, sent.key);
    EXPECT_EQ(got->value, sent.value);
    EXPECT_EQ(got->expected, sent.expected);
    EXPECT_EQ(got->number, sent.number);
    EXPECT_EQ(view, "rest");
  }
}

TEST(StoreProtocol, RepliesAndHellosComeBack) {
  const std::string bytes = encode_hello(7) + encode(Reply{Reply::Status::error, binary, -2}) + "rest";
  std::string_view view = bytes;
  EXPECT_EQ(take_hello(view), 7u);
  const auto reply = take_reply(view);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, Reply::Status::error);
  EXPECT_EQ(reply->value, binary);
  EXPECT_EQ(reply->number, -2);
  EXPECT_EQ(view, "rest");
}

TEST(StoreProtocol, WaitsForTheRest) {
  const std::string hello = encode_hello(), request = encode(Request{Operation::set, "key", "value", "old", 1}),
                    reply = encode(Reply{Reply::Status::found, "value", 1});
  const auto expect_incomplete = [](const std::string& whole, auto take) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      std::string_view view = std::string_view(whole).substr(0, length);
      EXPECT_FALSE(take(view));
      EXPECT_EQ(view.size(), length);
    }
  };
  expect_incomplete(hello, take_hello);
  expect_incomplete(request, take_request);
  expect_incomplete(reply, take_reply);
}

TEST(StoreProtocol, RefusesAtTheFirstWrongByte) {
  for (const std::string wrong : {"G", "GET / HTTP/1.1", "T\xff", "TANDEM", "TANDEM store"}) {
    std::string_view view = wrong;
    if (wrong == "TANDEM") {
      EXPECT_FALSE(take_hello(view));
    } else {
      TANDEM_EXPECT_ERROR(take_hello(view), "the hello is missing");
    }
  }
  for (const char operation : {'\0', '\7', '\xff'}) {
    const std::string bytes = operation + std::string(20, '\0');
    std::string_view view = bytes;
    TANDEM_EXPECT_ERROR(take_request(view), "is unknown");
    TANDEM_EXPECT_ERROR(take_reply(view), "is unknown");
  }
}

TEST(StoreProtocol, RefusesLengthsBeforeTheBytesCome) {
  const auto with_length = [](std::size_t offset, const std::string& length) {
    return encode(Request{Operation::set, "", "", "", 0}).replace(offset, 4, length);
  };
  const std::string gigabytes("\0\0\0\xf0", 4), key_and_one("\x01\x04\0\0", 4), value_and_one("\x01\0\x10\0", 4);
  for (const std::string& bytes :
       {with_length(1, gigabytes), with_length(5, gigabytes), with_length(9, gigabytes), with_length(1, key_and_one),
        with_length(5, value_and_one), with_length(9, value_and_one), with_length(1, "\xff\xff\xff\xff")}) {
    std::string_view view = bytes;
    TANDEM_EXPECT_ERROR(take_request(view), "bytes, more than");
  }
  const std::string reply = encode(Reply{}).replace(1, 4, gigabytes);
  std::string_view view = reply;
  TANDEM_EXPECT_ERROR(take_reply(view), "a value of 4026531840 bytes, more than 1048576");
}

TEST(StoreProtocol, AnyBytesAreAMessageOrAnError) {
  std::mt19937 random(1);
  int errors = 0;
  for (int i = 0; i < 20000; ++i) {
    // Mostly small numbers, so that some get through.
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 8 == 0 ? random() : random() % 3 / 2);
    for (int kind = 0; kind < 2; ++kind) {
      std::string_view view = bytes;
      try {
        const bool is_message = kind == 0 ? take_request(view).has_value() : take_reply(view).has_value();
        EXPECT_EQ(is_message, view.size() < bytes.size());
      } catch (const core::Error&) {
        ++errors;
      }
    }
  }
  EXPECT_GT(errors, 1000);
}

}  // namespace
}  // namespace tandem::distributed::store_protocol
