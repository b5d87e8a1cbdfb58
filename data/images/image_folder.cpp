#include "tandem/data/images/image_folder.h"

#include "tandem/core/files/file.h"
#include "tandem/core/parallel.h"
#include "tandem/data/images/decode_image.h"

namespace tandem::data {
namespace {

constexpr std::int64_t kMaxSide = 1 << 14;

ImageFolderOptions checked(ImageFolderOptions options) {
  if (options.image_size < 1 || options.image_size > kMaxSide)
    core::fail("image folder: images of size {}, needed 1 to {}", options.image_size, kMaxSide);
  if (options.shorter_side == 0) options.shorter_side = options.image_size * 256 / 224;
  if (options.shorter_side < options.image_size || options.shorter_side > 2 * kMaxSide)
    core::fail("image folder: a shorter side of {}, needed {} (the image size) to {}", options.shorter_side,
               options.image_size, 2 * kMaxSide);
  const auto& [area, ratio, mirrored] = options.crop;
  if (!(area[0] > 0 && area[0] <= area[1] && area[1] <= 1))
    core::fail("image folder: crops of {} to {} of the area, needed above 0, in order, to 1", area[0], area[1]);
  if (!(ratio[0] > 0 && ratio[0] <= ratio[1]))
    core::fail("image folder: aspect ratios of {} to {}, needed above 0, in order", ratio[0], ratio[1]);
  if (!(mirrored >= 0 && mirrored <= 1))
    core::fail("image folder: mirrored with probability {}, needed 0 to 1", mirrored);
  return options;
}

// `image` uint8 [S, S, kPixelBytes] to floats [3, S, S].
void normalize(const core::Tensor& image, bool mirrored, const std::array<PixelTable, 3>& tables, float* out) {
  const std::int64_t height = image.size(0), width = image.size(1);
  const std::int64_t first = mirrored ? width - 1 : 0, step = mirrored ? -kPixelBytes : kPixelBytes;
  for (std::size_t c = 0; c < tables.size(); ++c) {
    const std::uint8_t* row = image.data<std::uint8_t>() + c;
    for (std::int64_t y = 0; y < height; ++y, row += width * kPixelBytes) {
      const std::uint8_t* pixel = row + first * kPixelBytes;
      for (std::int64_t x = 0; x < width; ++x) *out++ = tables[c][pixel[x * step]];
    }
  }
}

}  // namespace

ImageFolder::ImageFolder(const std::filesystem::path& folder, Split split, const ImageFolderOptions& options)
    : ImageFolder(list_image_files(folder, split), options) {}

ImageFolder::ImageFolder(ImageFiles images, const ImageFolderOptions& options)
    : options_(checked(options)),
      images_(std::move(images)),
      tables_{PixelTable(options.normalization[0]), PixelTable(options.normalization[1]),
              PixelTable(options.normalization[2])} {}

void ImageFolder::read_sample(std::int64_t index, const EpochContext& context, float* out) const {
  const std::filesystem::path file = path(index);
  const core::Tensor image = decode_image(core::read_file(file), file);
  const std::int64_t height = image.size(0), width = image.size(1), side = options_.image_size;
  const Framing framing = options_.augment ? random_framing(height, width, side, options_.crop,
                                                            sample_stream(context, index, Draw::augment))
                                           : center_framing(height, width, side, options_.shorter_side);
  normalize(resize(image, framing), framing.mirrored, tables_, out);
}

void ImageFolder::read_into(std::span<const std::int64_t> indices, const EpochContext& context, float* input,
                            std::int64_t* target) const {
  const std::int64_t floats = 3 * options_.image_size * options_.image_size;
  core::parallel_for(static_cast<std::int64_t>(indices.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t index = indices[static_cast<std::size_t>(row)];
      target[row] = images_.files[static_cast<std::size_t>(index)].label;
      read_sample(index, context, input + row * floats);
    }
  });
}

}  // namespace tandem::data
