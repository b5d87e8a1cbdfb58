// Images of --data imagefolder that are not trained on: what cannot be read, and what is none by its name. Both are
// told.
#pragma once

#include <string>
#include <vector>

#include "tandem/data/images/image_files.h"
#include "tools/train/settings/settings.h"

namespace tandem::train {

/// Finds images that training would stop at in the middle. With --skip-bad-images they are left out, with a note for
/// each of the first; else they are an Error. It is one in any case if a class has no image to learn it from, or the
/// split has none at all.
void check_images(const Settings& settings, data::Split split, data::ImageFiles& images,
                  std::vector<std::string>& notes);

/// Notes files that are no images by their names, and how much is held out for testing.
void note_listing(data::Split split, const data::ImageFiles& images, std::vector<std::string>& notes);

}  // namespace tandem::train
