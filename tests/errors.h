// What a call throws, and whether it says what it should.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

#include "tandem/core/error.h"

namespace tandem::testing {

/// The message of the Error that `f` throws; a failure where it throws none, another exception, or more than one line.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const core::Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
}

}  // namespace tandem::testing

/// Expects that `statement` throws Error with a message that contains `text`.
#define TANDEM_EXPECT_ERROR(statement, text) \
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, text, ::tandem::testing::error_of([&] { statement; }))
