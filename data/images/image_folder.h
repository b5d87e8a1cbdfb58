// Photographs in folders named by class, as ImageNet is laid out: FOLDER/train/CLASS/*.jpg, FOLDER/val/CLASS/*.jpg.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tandem/data/images/framing.h"
#include "tandem/data/images/image_files.h"
#include "tandem/data/images/pixels.h"
#include "tandem/data/labelled_dataset.h"

namespace tandem::data {

/// Of ImageNet's training images, per channel; what pretrained models of torchvision expect.
inline constexpr std::array<Normalization, 3> kImageNetNormalization{{{.mean = 0.485f, .deviation = 0.229f},
                                                                      {.mean = 0.456f, .deviation = 0.224f},
                                                                      {.mean = 0.406f, .deviation = 0.225f}}};

struct ImageFolderOptions {
  std::int64_t image_size = 224;  ///< a sample's height and width
  bool augment = false;           ///< for training: a random part, sometimes mirrored; else the middle
  RandomCrop crop{};              ///< with `augment`
  std::int64_t shorter_side = 0;  ///< without: resized to, before the middle is cut out; 0: image_size * 256 / 224
  std::array<Normalization, 3> normalization = kImageNetNormalization;
};

/// Files are listed once and decoded when they are read, on the compute threads of the thread that reads.
class ImageFolder final : public LabelledDataset {
 public:
  /// Throws Error as list_image_files() does, and for options that make no sense. A damaged file is an Error of read().
  ImageFolder(const std::filesystem::path& folder, Split split, const ImageFolderOptions& options = {});
  /// Of files that are listed already.
  ImageFolder(ImageFiles images, const ImageFolderOptions& options);

  std::int64_t size() const override { return static_cast<std::int64_t>(images_.files.size()); }
  core::Shape sample_shape() const override { return {3, options_.image_size, options_.image_size}; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(images_.classes.size()); }

  /// What the classes are called, by number; and which file a sample is.
  const std::vector<std::string>& class_names() const { return images_.classes; }
  std::filesystem::path path(std::int64_t index) const { return images_.path(index); }

 protected:
  void read_into(std::span<const std::int64_t> indices, const EpochContext& context, float* input,
                 std::int64_t* target) const override;

 private:
  void read_sample(std::int64_t index, const EpochContext& context, float* out) const;

  ImageFolderOptions options_;
  ImageFiles images_;
  std::array<PixelTable, 3> tables_;
};

}  // namespace tandem::data
