#include "tandem/data/images/image_files.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tandem/core/error.h"
#include "tandem/core/fnv1a.h"
#include "tandem/data/images/held_out.h"

namespace tandem::data {
namespace fs = std::filesystem;
namespace {

// What people take for images. Which of them can be read is told by their bytes (image_check.h).
constexpr std::array<std::string_view, 22> kImageExtensions{
    ".jpg", ".jpeg", ".jpe", ".jfif", ".pjpeg", ".pjp",  ".png",  ".apng", ".gif", ".bmp", ".webp",
    ".tif", ".tiff", ".ppm", ".pgm",  ".pnm",   ".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg"};

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// The folders in a split's folder, sorted. Files beside them that are no images go to `others`.
std::vector<std::string> list_classes(const fs::path& folder, std::vector<std::string>* others = nullptr) {
  std::vector<std::string> classes;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    if (entry.is_directory()) {
      classes.push_back(entry.path().filename().string());
    } else if (has_image_name(entry.path())) {
      core::fail("{}: lies in no class's folder, expected {}", entry.path().string(),
                 (folder / "CLASS" / entry.path().filename()).string());
    } else if (others) {
      others->push_back(entry.path().filename().string());
    }
  }
  if (classes.empty()) core::fail("{}: no classes, expected {}", folder.string(), (folder / "CLASS/*.jpg").string());
  std::sort(classes.begin(), classes.end());
  return classes;
}

// Files at any depth. A broken link is one, and an error when it is read; a link to a folder above it is an error here,
// when the system has counted too many links.
void add_files(const fs::path& folder, std::vector<std::string>& images, std::vector<std::string>& others) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    if (entry.is_directory()) {
      add_files(entry.path(), images, others);
    } else {
      (has_image_name(entry.path()) ? images : others).push_back(entry.path().string());
    }
  }
}

// The images of one class, sorted; names begin with the class's.
std::vector<std::string> list_files(const fs::path& split_folder, const std::string& class_name,
                                    std::vector<std::string>& others) {
  const fs::path folder = split_folder / class_name;
  std::vector<std::string> names, other_names;
  add_files(folder, names, other_names);
  if (names.empty()) core::fail("{}: a class without images, expected *.jpg or *.png there", folder.string());
  for (std::vector<std::string>* all : {&names, &other_names})
    for (std::string& name : *all) name.erase(0, folder.string().size() - class_name.size());
  std::sort(names.begin(), names.end());
  others.insert(others.end(), other_names.begin(), other_names.end());
  return names;
}

// Where the splits lie; without a folder for testing, the training images are both.
struct Layout {
  fs::path train;
  std::optional<fs::path> test;
};

Layout find_layout(const fs::path& folder) {
  if (!fs::is_directory(folder)) core::fail("{}: is no folder", folder.string());
  Layout layout{.train = folder / "train", .test = {}};
  for (const char* name : {"test", "val"})
    if (fs::is_directory(folder / name)) layout.test = folder / name;
  if (fs::is_directory(layout.train)) return layout;
  if (layout.test)
    core::fail("{}: has no folder 'train', expected {}/CLASS/*.jpg beside {}", folder.string(), layout.train.string(),
               layout.test->string());
  layout.train = folder;
  const std::vector<std::string> classes = list_classes(folder);
  if (classes.size() == 1)
    core::fail("{}: holds one folder alone, '{}', expected a folder for each class, or 'train' and 'val'",
               folder.string(), classes.front());
  return layout;
}

void check_held_out(const Layout& layout, std::optional<double> held_out) {
  if (!held_out) return;
  if (layout.test) core::fail("no images can be held out for testing: {} is for that", layout.test->string());
  if (!(*held_out > 0 && *held_out < 1))
    core::fail("image files: {} of the images held out, needed a number above 0 and below 1", *held_out);
}

// Keeps, of one class's images, those of the split.
void keep_split(std::vector<std::string>& names, Split split, double held_out) {
  const std::vector<bool> chosen = choose_held_out(names, held_out);
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (chosen[i] == (split == Split::test)) kept.push_back(std::move(names[i]));
  names = std::move(kept);
}

ImageFiles list(const fs::path& folder, Split split, std::optional<double> held_out) {
  const Layout layout = find_layout(folder);
  check_held_out(layout, held_out);
  const bool is_own_folder = split == Split::test && layout.test;
  ImageFiles images;
  images.folder = is_own_folder ? *layout.test : layout.train;
  images.classes = list_classes(layout.train);
  if (!layout.test) images.held_out = held_out.value_or(kUsualHeldOut);
  for (const std::string& class_name : list_classes(images.folder, &images.other_files)) {
    const auto found = std::lower_bound(images.classes.begin(), images.classes.end(), class_name);
    if (found == images.classes.end() || *found != class_name)
      core::fail("{}: a class that {} lacks", (images.folder / class_name).string(), layout.train.string());
    std::vector<std::string> names = list_files(images.folder, class_name, images.other_files);
    if (images.held_out) keep_split(names, split, *images.held_out);
    for (std::string& name : names)
      images.files.push_back({.name = std::move(name), .label = found - images.classes.begin()});
  }
  std::sort(images.other_files.begin(), images.other_files.end());
  return images;
}

// What the system says of a folder becomes an Error.
template <class List>
auto naming_place(const fs::path& folder, List&& list) {
  try {
    return list();
  } catch (const fs::filesystem_error& error) {
    core::fail("{}: cannot be listed: {}", (error.path1().empty() ? folder : error.path1()).string(),
               error.code().message());
  }
}

}  // namespace

bool has_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return std::find(kImageExtensions.begin(), kImageExtensions.end(), extension) != kImageExtensions.end();
}

ImageFiles list_image_files(const fs::path& folder, Split split, std::optional<double> held_out) {
  return naming_place(folder, [&] { return list(folder, split, held_out); });
}

std::vector<std::string> list_images_below(const fs::path& folder) {
  return naming_place(folder, [&] {
    std::vector<std::string> images, others;
    add_files(folder, images, others);
    std::sort(images.begin(), images.end());
    return images;
  });
}

std::uint64_t hash_of(const ImageFiles& images) {
  std::uint64_t hash = core::fnv1a("");
  for (const ImageFile& file : images.files) {
    std::error_code error;  // a file that has gone is an error when it is read
    const std::uintmax_t size = fs::file_size(images.folder / file.name, error);
    hash = core::fnv1a(fmt::format("{} {}\n", file.name, error ? 0 : size), hash);
  }
  return hash;
}

}  // namespace tandem::data
