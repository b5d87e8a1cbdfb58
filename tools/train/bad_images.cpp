#include "tools/train/bad_images.h"

#include "tandem/core/error.h"
#include "tandem/data/images/image_check.h"
#include "tandem/train/format.h"

namespace tandem::train {
namespace {

using data::ImageCheck;
using data::Split;
using data::UnreadableImage;

std::vector<std::string> reasons_of(const std::vector<UnreadableImage>& bad) {
  std::vector<std::string> reasons;
  for (const UnreadableImage& image : bad) reasons.push_back(image.reason);
  return reasons;
}

std::vector<std::string> names_of(const std::vector<std::int64_t>& classes, const data::ImageFiles& images) {
  std::vector<std::string> names;
  for (const std::int64_t label : classes) names.push_back(images.classes[static_cast<std::size_t>(label)]);
  return names;
}

[[noreturn]] void fail_without_class(const std::vector<std::int64_t>& classes, const data::ImageFiles& images,
                                     std::vector<UnreadableImage> bad) {
  std::erase_if(bad, [&](const UnreadableImage& image) {
    return images.files[static_cast<std::size_t>(image.index)].label != classes.front();
  });
  const std::vector<std::string> names = names_of(classes, images);
  core::fail("{}: no image of the {} {} can be read, so {} cannot be learned: {}", images.folder.string(),
             names.size() == 1 ? "class" : "classes", first_few(names), names.size() == 1 ? "it" : "they",
             first_few(reasons_of(bad), "; "));
}

void check_enough_is_left(Split split, const data::ImageFiles& images, const std::vector<UnreadableImage>& bad,
                          const std::vector<std::int64_t>& lost_classes) {
  if (split == Split::train && !lost_classes.empty()) fail_without_class(lost_classes, images, bad);
  if (bad.size() == images.files.size())
    core::fail("{}: no image can be read: {}", images.folder.string(), first_few(reasons_of(bad), "; "));
}

}  // namespace

void check_images(const Settings& settings, Split split, data::ImageFiles& images, std::vector<std::string>& notes) {
  const auto bad = data::find_unreadable(images, settings.skip_bad_images ? ImageCheck::all : ImageCheck::ends);
  if (bad.empty()) return;
  const std::vector<std::int64_t> lost_classes = data::unreadable_classes(images, bad);
  check_enough_is_left(split, images, bad, lost_classes);
  if (!settings.skip_bad_images)
    core::fail("{}; --skip-bad-images leaves out what cannot be read", first_few(reasons_of(bad), "; "));
  notes.push_back(fmt::format("left out {} of {} images in {}: {}", with_commas(std::ssize(bad)),
                              with_commas(std::ssize(images.files)), images.folder.string(),
                              first_few(reasons_of(bad), "; ")));
  if (!lost_classes.empty())
    notes.push_back(
        fmt::format("no image is left to evaluate these classes on: {}", first_few(names_of(lost_classes, images))));
  data::leave_out(bad, images);
}

void note_listing(Split split, const data::ImageFiles& images, std::vector<std::string>& notes) {
  const bool is_listed_first = split == Split::train || !images.held_out;  // else both splits have the same files
  if (!images.other_files.empty() && is_listed_first)
    notes.push_back(fmt::format("{} in {} are no images by their names: {}",
                                with_commas(std::ssize(images.other_files)), images.folder.string(),
                                first_few(images.other_files)));
  if (split == Split::test && images.held_out)
    notes.push_back(fmt::format("{} % of each class are held out to evaluate on, by their names (--val-fraction)",
                                100 * *images.held_out));
}

}  // namespace tandem::train
