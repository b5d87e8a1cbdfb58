#include "tandem/data/fashion_mnist.h"

#include <algorithm>

#include "tandem/core/files/file.h"
#include "tandem/core/parallel.h"
#include "tandem/data/idx.h"

namespace tandem::data {
namespace {

constexpr std::uint64_t kLabelsHeader = 8;

// The file as it is named, where there is one, else its compressed form.
std::filesystem::path find_file(const std::filesystem::path& folder, Split split, const char* suffix) {
  const std::filesystem::path plain = folder / fmt::format("{}-{}", split == Split::train ? "train" : "t10k", suffix);
  if (std::filesystem::exists(plain)) return plain;
  std::filesystem::path compressed = plain;
  compressed += ".gz";
  if (!std::filesystem::exists(compressed)) core::fail("{}: no such file, nor with .gz", plain.string());
  return compressed;
}

}  // namespace

FashionMnist::FashionMnist(const std::filesystem::path& folder, Split split, const Normalization& normalization)
    : table_(normalization) {
  images_ = load_idx_images(find_file(folder, split, "images-idx3-ubyte"));
  const std::filesystem::path labels_path = find_file(folder, split, "labels-idx1-ubyte");
  labels_ = load_idx_labels(labels_path);
  if (images_.size(0) != labels_.size(0))
    core::fail_at(labels_path, 4, "{} labels, but {} images beside them", labels_.size(0), images_.size(0));
  const std::uint8_t* labels = labels_.data<std::uint8_t>();
  for (std::int64_t i = 0; i < size(); ++i)
    if (labels[i] >= classes())
      core::fail_at(labels_path, kLabelsHeader + static_cast<std::uint64_t>(i), "label {}, needed 0 to 9", labels[i]);
}

void FashionMnist::read_into(std::span<const std::int64_t> indices, const EpochContext&, float* input,
                             std::int64_t* target) const {
  const std::int64_t pixels = core::numel(sample_shape());
  const std::uint8_t* images = images_.data<std::uint8_t>();
  const std::uint8_t* labels = labels_.data<std::uint8_t>();
  core::parallel_for(static_cast<std::int64_t>(indices.size()), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t index = indices[static_cast<std::size_t>(row)];
      const std::uint8_t* image = images + index * pixels;
      std::transform(image, image + pixels, input + row * pixels, [&](std::uint8_t byte) { return table_[byte]; });
      target[row] = labels[index];
    }
  });
}

}  // namespace tandem::data
