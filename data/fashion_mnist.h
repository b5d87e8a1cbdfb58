// Fashion-MNIST, and MNIST, whose files have the same names and format: 28 x 28 grey images of 10 classes.
//
// Source: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning
// algorithms", 2017. Debian's package dataset-fashion-mnist brings it.
#pragma once

#include <array>
#include <filesystem>

#include "tandem/data/images/pixels.h"
#include "tandem/data/labelled_dataset.h"

namespace tandem::data {

inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";
inline constexpr Normalization kFashionMnistNormalization{.mean = 0.286041f, .deviation = 0.353024f};
inline constexpr Normalization kMnistNormalization{.mean = 0.1307f, .deviation = 0.3081f};

inline constexpr std::array<const char*, 10> kFashionMnistClasses{
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"};
inline constexpr std::array<const char*, 10> kMnistClasses{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

class FashionMnist final : public LabelledDataset {
 public:
  /// Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (t10k-... for the test split) from `folder`, with or
  /// without .gz. Throws Error with path and byte offset where a file is missing or damaged, the two hold different
  /// numbers of samples, or a label is above 9.
  explicit FashionMnist(const std::filesystem::path& folder = kFashionMnistFolder, Split split = Split::train,
                        const Normalization& normalization = kFashionMnistNormalization);

  std::int64_t size() const override { return images_.size(0); }
  /// [1, H, W].
  core::Shape sample_shape() const override { return {1, images_.size(1), images_.size(2)}; }
  std::int64_t classes() const override { return 10; }

 protected:
  void read_into(std::span<const std::int64_t> indices, const EpochContext& context, float* input,
                 std::int64_t* target) const override;

 private:
  PixelTable table_;
  core::Tensor images_;  // uint8 [N, H, W]
  core::Tensor labels_;  // uint8 [N]
};

/// MNIST: the same, other numbers.
inline FashionMnist mnist(const std::filesystem::path& folder, Split split) {
  return FashionMnist(folder, split, kMnistNormalization);
}

}  // namespace tandem::data
