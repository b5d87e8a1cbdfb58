// A folder of images, sorted by class into folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tandem/data/dataset.h"

namespace tandem::data {

struct ImageFile {
  std::string name;        ///< below ImageFiles::folder
  std::int64_t label = 0;  ///< number of its class
};

/// The JPEG files of one split, FOLDER/train/CLASS/... or FOLDER/val/CLASS/... (FOLDER/test where there is no val).
/// Names end in .jpg or .jpeg, in any case, and may lie in folders below the class's; links are followed.
struct ImageFiles {
  std::filesystem::path folder;      ///< of the split
  std::vector<std::string> classes;  ///< the folders of train, sorted by bytes: also for the other split
  std::vector<ImageFile> files;      ///< by class, then by name, sorted by bytes

  std::filesystem::path path(std::int64_t index) const { return folder / files[static_cast<std::size_t>(index)].name; }
};

/// Lists them; no file is opened. What begins with a dot is left alone, as are files that are no images by their names.
/// Throws Error naming the place: where folders are missing or may not be read, a class has no file, the other split
/// has a class that train lacks, a JPEG file lies outside of the classes' folders, or an image has another format.
ImageFiles list_image_files(const std::filesystem::path& folder, Split split);

}  // namespace tandem::data
