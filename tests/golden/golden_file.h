// A file of golden values that remembers which of them a test has read: one that nobody reads proves nothing.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "tandem/core/files/safetensors.h"

namespace tandem::testing {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name)
      : name_(name), tensors_(core::load_safetensors(std::string(TANDEM_TEST_DATA) + "/" + name)) {
    for (auto& [key, tensor] : tensors_) tensor = tensor.to(core::default_device());
  }

  bool has(const std::string& key) const { return tensors_.count(key) != 0; }
  const core::Tensor& operator[](const std::string& key) {
    const auto found = tensors_.find(key);
    if (found == tensors_.end()) core::fail("{}: no golden value '{}'", name_, key);
    read_.insert(key);
    return found->second;
  }
  std::size_t size() const { return tensors_.size(); }

  /// All whose names begin with `prefix`.
  void expect_all_read(const std::string& prefix = "") const {
    for (const auto& [key, tensor] : tensors_)
      EXPECT_TRUE(read_.count(key) || !key.starts_with(prefix)) << name_ << ": no test reads '" << key << "'";
  }

 private:
  std::string name_;
  core::TensorMap tensors_;
  std::set<std::string> read_;
};

/// |actual - expected| <= tolerance x the largest |expected|, or x `floor` where that is larger. NaN and infinities
/// must agree.
inline void expect_near(const core::Tensor& actual, const core::Tensor& expected, double tolerance,
                        const std::string& what, double floor = 0) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const auto a = actual.to_vector<double>(), e = expected.to_vector<double>();
  double scale = floor;
  for (const double value : e)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    ASSERT_LE(std::abs(a[i] - e[i]), tolerance * scale)
        << what << ", element " << i << ": " << a[i] << " instead of " << e[i];
  }
}

}  // namespace tandem::testing
