#include "tandem/data/cifar10.h"

#include <algorithm>

#include "tandem/core/files/file.h"
#include "tandem/core/parallel.h"

namespace tandem::data {
namespace {

constexpr std::int64_t kPadding = 4;

// How an image is moved. Without augmentation: not at all.
struct Placement {
  std::int64_t down = 0, right = 0;  // the crop's corner, relative to the image's
  bool mirrored = false;
};

Placement draw_placement(const EpochContext& context, std::int64_t index) {
  const auto words = sample_stream(context, index, Draw::augment).block(0);
  constexpr std::uint32_t kPlaces = 2 * kPadding + 1;
  return {.down = static_cast<std::int64_t>(words[0] % kPlaces) - kPadding,
          .right = static_cast<std::int64_t>(words[1] % kPlaces) - kPadding,
          .mirrored = (words[2] >> 31) != 0};
}

// One channel, [side, side]. What lies outside of the image is black.
void place_channel(const std::uint8_t* image, const PixelTable& table, const Placement& placement, std::int64_t side,
                   float* out) {
  for (std::int64_t y = 0; y < side; ++y, out += side) {
    const std::int64_t from_y = y + placement.down;
    if (from_y < 0 || from_y >= side) {
      std::fill_n(out, side, table[0]);
      continue;
    }
    for (std::int64_t x = 0; x < side; ++x) {
      const std::int64_t from_x = (placement.mirrored ? side - 1 - x : x) + placement.right;
      out[x] = table[from_x < 0 || from_x >= side ? std::uint8_t{0} : image[from_y * side + from_x]];
    }
  }
}

}  // namespace

Cifar10::Cifar10(const std::filesystem::path& folder, Split split, bool augment)
    : tables_{PixelTable(kCifar10Normalization[0]), PixelTable(kCifar10Normalization[1]),
              PixelTable(kCifar10Normalization[2])},
      augment_(augment) {
  const std::filesystem::path inner = folder / "cifar-10-batches-bin";
  const std::filesystem::path place = std::filesystem::is_directory(inner) ? inner : folder;
  if (split == Split::test) {
    append_file(place / "test_batch.bin");
    return;
  }
  for (int i = 1; i <= 5; ++i) append_file(place / fmt::format("data_batch_{}.bin", i));
}

void Cifar10::append_file(const std::filesystem::path& path) {
  const core::InputFile file(path);
  const std::uint64_t left_over = file.size() % kRecord;
  if (file.size() == 0 || left_over != 0)
    core::fail_at(path, file.size() - left_over, "{} bytes of a record of {}: the file ends early", left_over, kRecord);
  const std::size_t first = records_.size();
  records_.resize(first + file.size());
  file.read(0, records_.data() + first, file.size());
  for (std::size_t at = first; at < records_.size(); at += kRecord)
    if (records_[at] >= classes()) core::fail_at(path, at - first, "label {}, needed 0 to 9", records_[at]);
}

void Cifar10::read_into(std::span<const std::int64_t> indices, const EpochContext& context, float* input,
                        std::int64_t* target) const {
  constexpr std::int64_t kPixels = kSide * kSide;
  core::parallel_for(static_cast<std::int64_t>(indices.size()), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t index = indices[static_cast<std::size_t>(row)];
      const std::uint8_t* record = records_.data() + index * kRecord;
      const Placement placement = augment_ ? draw_placement(context, index) : Placement{};
      target[row] = record[0];
      for (std::int64_t c = 0; c < kChannels; ++c)
        place_channel(record + 1 + c * kPixels, tables_[static_cast<std::size_t>(c)], placement, kSide,
                      input + (row * kChannels + c) * kPixels);
    }
  });
}

}  // namespace tandem::data
