// A folder of images, sorted by class into folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/data/dataset.h"

namespace tandem::data {

struct ImageFile {
  std::string name;        ///< below ImageFiles::folder
  std::int64_t label = 0;  ///< number of its class
};

/// The images of one split: FOLDER/train/CLASS/... and FOLDER/val/CLASS/... (or FOLDER/test/CLASS/...). Without val and
/// test a part of the training images is held out; if there is no train either, the classes are FOLDER/CLASS/...
/// They are files that are images by their names, in whatever format and case, and may lie in folders below the
/// class's; links are followed.
struct ImageFiles {
  std::filesystem::path folder;          ///< of the split
  std::vector<std::string> classes;      ///< the folders of train, sorted by bytes: also for the other split
  std::vector<ImageFile> files;          ///< by class, then by name, sorted by bytes
  std::vector<std::string> other_files;  ///< that are no images by their names: below `folder`, sorted
  std::optional<double> held_out;        ///< the part of the training images that is for testing, if there is one

  std::filesystem::path path(std::int64_t index) const { return folder / files[static_cast<std::size_t>(index)].name; }
};

/// Whether people would take it for an image by its name: also formats that cannot be read, so that none is left out
/// silently.
bool has_image_name(const std::filesystem::path& path);

/// What is held out if nobody says how much.
inline constexpr double kUsualHeldOut = 0.1;

/// Lists them; no file is opened. What begins with a dot is left alone.
///
/// Which images are held out is decided by a hash of their names alone: `held_out` of them on average (above 0, below
/// 1), and at least one of a class that has two; so that a file stays where it is while others come and go.
/// Throws Error naming the place: if folders are missing or may not be read, a class has no file, the other split has a
/// class that train lacks, an image lies outside of the classes' folders, or `held_out` is given beside val or test.
ImageFiles list_image_files(const std::filesystem::path& folder, Split split, std::optional<double> held_out = {});

/// Of the names and sizes of all files: another one if a file is added, removed, renamed or replaced by a file of
/// another size, and the same wherever the folder lies. No file is opened.
std::uint64_t hash_of(const ImageFiles& images);

/// The images (has_image_name()) in a folder and in those below it, for whom classes do not matter: paths, sorted by
/// bytes. What begins with a dot is left alone, links are followed. Throws Error if a folder may not be read.
std::vector<std::string> list_images_below(const std::filesystem::path& folder);

}  // namespace tandem::data
