// A 2-D convolution (cross-correlation, as in every framework).
#pragma once

#include <array>

#include "tandem/nn/module.h"

namespace tandem::nn {

/// What the weight starts from (nn/init.h); the bias is uniform by fan-in in any case.
enum class Conv2dInit : std::uint8_t { uniform_by_fan_in, normal_by_fan_out };

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  bool bias = true;
  core::Activation activation = core::Activation::none;  ///< applied to the result
  Conv2dInit init = Conv2dInit::uniform_by_fan_in;
};

/// weight [out, in / groups, kh, kw], bias [out].
class Conv2d final : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::array<std::int64_t, 2> kernel, Generator& random,
         const Conv2dOptions& options = {});
  /// A square kernel; also what Sequential::add can hand on, which a braced {3, 3} is not.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel, Generator& random,
         const Conv2dOptions& options = {})
      : Conv2d(in_channels, out_channels, std::array{kernel, kernel}, random, options) {}
  /// [N, in, H, W] -> [N, out, H', W'], channels-last
  Variable forward(const Variable& x) override;

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }

 private:
  core::Conv2dOptions options_;
  Variable weight_, bias_;
};

}  // namespace tandem::nn
