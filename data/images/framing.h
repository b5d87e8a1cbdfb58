// What of a photograph a network sees: a random part of it in training, the middle of it in evaluation.
//
// Source: C. Szegedy et al., "Going deeper with convolutions", 2014, section 6; the details are torchvision's
// RandomResizedCrop, Resize and CenterCrop.
#pragma once

#include <array>

#include "tandem/core/random.h"
#include "tandem/data/images/resize.h"

namespace tandem::data {

/// What random_framing() draws.
struct RandomCrop {
  std::array<double, 2> area{0.08, 1.0};                     ///< as a part of the image's, uniform
  std::array<double, 2> aspect_ratio{3.0 / 4.0, 4.0 / 3.0};  ///< width / height before resizing, its logarithm uniform
  double mirrored = 0.5;                                     ///< probability
};

/// A random part of an image of height x width pixels, resized to side x side. Of ten boxes the first that lies within
/// the image is taken; where none does, the largest in the middle whose aspect ratio is allowed.
Framing random_framing(std::int64_t height, std::int64_t width, std::int64_t side, const RandomCrop& crop,
                       const core::PhiloxStream& random);

/// The image resized so that its shorter side has `shorter` pixels, and of that the side x side in the middle;
/// `shorter` is not below `side`.
Framing center_framing(std::int64_t height, std::int64_t width, std::int64_t side, std::int64_t shorter);

}  // namespace tandem::data
