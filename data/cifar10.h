// CIFAR-10: 32 x 32 colour images of 10 classes, in the "binary version" of its authors.
//
// The file: records of 1 label and 3 x 1,024 bytes (red, green, blue, each row-major). Source: A. Krizhevsky, "Learning
// multiple layers of features from tiny images", 2009, and www.cs.toronto.edu/~kriz/cifar.html.
#pragma once

#include <array>
#include <filesystem>
#include <vector>

#include "tandem/data/images/pixels.h"
#include "tandem/data/labelled_dataset.h"

namespace tandem::data {

/// Of the training images, per channel.
inline constexpr std::array<Normalization, 3> kCifar10Normalization{{{.mean = 0.4914f, .deviation = 0.2470f},
                                                                     {.mean = 0.4822f, .deviation = 0.2435f},
                                                                     {.mean = 0.4465f, .deviation = 0.2616f}}};

inline constexpr std::array<const char*, 10> kCifar10Classes{"airplane", "automobile", "bird",  "cat",  "deer",
                                                             "dog",      "frog",       "horse", "ship", "truck"};

class Cifar10 final : public LabelledDataset {
 public:
  /// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, from `folder` or its subfolder
  /// cifar-10-batches-bin; the files may hold fewer records than the original ones. With `augment` each image is padded
  /// by 4 black pixels, cropped to 32 x 32 at a random place, and mirrored every other time. Throws Error with path and
  /// byte offset where a file is missing, does not consist of whole records, or holds a label above 9.
  Cifar10(const std::filesystem::path& folder, Split split, bool augment = false);

  std::int64_t size() const override { return static_cast<std::int64_t>(records_.size()) / kRecord; }
  core::Shape sample_shape() const override { return {kChannels, kSide, kSide}; }
  std::int64_t classes() const override { return 10; }

 protected:
  void read_into(std::span<const std::int64_t> indices, const EpochContext& context, float* input,
                 std::int64_t* target) const override;

 private:
  static constexpr std::int64_t kChannels = 3, kSide = 32, kRecord = 1 + kChannels * kSide * kSide;

  void append_file(const std::filesystem::path& path);

  std::vector<std::uint8_t> records_;
  std::array<PixelTable, 3> tables_;
  bool augment_;
};

}  // namespace tandem::data
