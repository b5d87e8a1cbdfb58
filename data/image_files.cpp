#include "tandem/data/image_files.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tandem/core/error.h"

namespace tandem::data {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 2> kJpeg{".jpg", ".jpeg"};
// What people take for images, and torchvision's ImageFolder reads.
constexpr std::array<std::string_view, 9> kOtherImages{".png",  ".gif", ".bmp", ".webp", ".tif",
                                                       ".tiff", ".ppm", ".pgm", ".jpe"};

template <std::size_t N>
bool has_extension(const fs::path& path, const std::array<std::string_view, N>& extensions) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// Whether `path` is an image of ours. Another format is an error, since it would silently be left out.
bool is_jpeg(const fs::path& path) {
  if (has_extension(path, kOtherImages))
    core::fail("{}: only JPEG files are read (.jpg, .jpeg): convert it, or put it elsewhere", path.string());
  return has_extension(path, kJpeg);
}

// The folders in a split's folder, sorted.
std::vector<std::string> list_classes(const fs::path& folder) {
  std::vector<std::string> classes;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    if (entry.is_directory()) {
      classes.push_back(entry.path().filename().string());
    } else if (is_jpeg(entry.path())) {
      core::fail("{}: lies in no class's folder, expected {}", entry.path().string(),
                 (folder / "CLASS" / entry.path().filename()).string());
    }
  }
  if (classes.empty()) core::fail("{}: no classes, expected {}", folder.string(), (folder / "CLASS/*.jpg").string());
  std::sort(classes.begin(), classes.end());
  return classes;
}

// The JPEG files at any depth. A broken link is one, and an error when it is read; a link to a folder above it is an
// error here, when the system has counted too many links.
void add_files(const fs::path& folder, std::vector<std::string>& paths) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    if (entry.is_directory()) {
      add_files(entry.path(), paths);
    } else if (is_jpeg(entry.path())) {
      paths.push_back(entry.path().string());
    }
  }
}

// The JPEG files of one class, sorted; names begin with the class's.
std::vector<std::string> list_files(const fs::path& split_folder, const std::string& class_name) {
  const fs::path folder = split_folder / class_name;
  std::vector<std::string> names;
  add_files(folder, names);
  if (names.empty()) core::fail("{}: a class without images, expected *.jpg or *.jpeg there", folder.string());
  for (std::string& name : names) name.erase(0, folder.string().size() - class_name.size());
  std::sort(names.begin(), names.end());
  return names;
}

// Where the split lies.
fs::path split_folder(const fs::path& folder, Split split) {
  const auto expected = [&](std::string_view missing) {
    core::fail("{}: has no folder {}, expected {}/CLASS/*.jpg and {}/CLASS/*.jpg", folder.string(), missing,
               (folder / "train").string(), (folder / "val").string());
  };
  if (!fs::is_directory(folder)) core::fail("{}: is no folder", folder.string());
  if (!fs::is_directory(folder / "train")) expected("'train'");
  if (split == Split::train) return folder / "train";
  for (const char* name : {"val", "test"})
    if (fs::is_directory(folder / name)) return folder / name;
  expected("'val' or 'test'");
  return {};
}

ImageFiles list(const fs::path& folder, Split split) {
  ImageFiles images{.folder = split_folder(folder, split), .classes = list_classes(folder / "train"), .files = {}};
  const std::vector<std::string> present = split == Split::train ? images.classes : list_classes(images.folder);
  for (const std::string& class_name : present) {
    const auto found = std::lower_bound(images.classes.begin(), images.classes.end(), class_name);
    if (found == images.classes.end() || *found != class_name)
      core::fail("{}: a class that {} lacks", (images.folder / class_name).string(), (folder / "train").string());
    for (std::string& name : list_files(images.folder, class_name))
      images.files.push_back({.name = std::move(name), .label = found - images.classes.begin()});
  }
  return images;
}

}  // namespace

ImageFiles list_image_files(const fs::path& folder, Split split) {
  try {
    return list(folder, split);
  } catch (const fs::filesystem_error& error) {
    core::fail("{}: cannot be listed: {}", (error.path1().empty() ? folder : error.path1()).string(),
               error.code().message());
  }
}

}  // namespace tandem::data
