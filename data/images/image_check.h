// Images that cannot be read, found before training meets them in the middle of a run.
#pragma once

#include <string>
#include <vector>

#include "tandem/data/images/image_files.h"

namespace tandem::data {

enum class ImageCheck : std::uint8_t {
  /// The first and last bytes of each file: other formats, empty and cut off files. Some 10 us each if the system has
  /// them in memory.
  ends,
  /// Each file is decoded, which takes as long as reading all images once.
  all
};

struct UnreadableImage {
  std::int64_t index = 0;  ///< in ImageFiles::files
  std::string reason;      ///< begins with the path
};

/// In the order of `images`. Depends on the files alone, so that all ranks and resumed runs find the same. Files are
/// read on the compute threads of the thread that calls.
std::vector<UnreadableImage> find_unreadable(const ImageFiles& images, ImageCheck check);

/// Numbers of the classes that have images, all of which are `unreadable`, in order.
std::vector<std::int64_t> unreadable_classes(const ImageFiles& images, const std::vector<UnreadableImage>& unreadable);

/// Takes them out of `images`.
void leave_out(const std::vector<UnreadableImage>& unreadable, ImageFiles& images);

}  // namespace tandem::data
