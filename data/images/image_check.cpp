#include "tandem/data/images/image_check.h"

#include <algorithm>
#include <string_view>

#include "tandem/core/files/file.h"
#include "tandem/core/parallel.h"
#include "tandem/data/images/decode_image.h"

namespace tandem::data {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kHead = 16, kTail = 32;

std::string read_part(const core::InputFile& file, std::uint64_t begin, std::uint64_t size) {
  std::string bytes(size, '\0');
  file.read(begin, bytes.data(), bytes.size());
  return bytes;
}

// Whether the file ends as its format does. Some writers leave bytes behind that, so this is no proof of damage.
bool has_end(std::string_view head, std::string_view tail) {
  return tail.find(image_format(head) == "PNG" ? "IEND"sv : "\xff\xd9"sv) != tail.npos;
}

void check(const std::filesystem::path& path, ImageCheck depth) {
  if (depth == ImageCheck::ends) {
    const core::InputFile file(path);
    const std::string head = read_part(file, 0, std::min(kHead, file.size()));
    check_image_format(head, path);
    const std::uint64_t tail = std::min(kTail, file.size());
    if (has_end(head, read_part(file, file.size() - tail, tail))) return;
  }
  decode_image(core::read_file(path), path);
}

}  // namespace

std::vector<UnreadableImage> find_unreadable(const ImageFiles& images, ImageCheck depth) {
  const auto count = static_cast<std::int64_t>(images.files.size());
  std::vector<std::string> reasons(images.files.size());
  core::parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      try {
        check(images.path(i), depth);
      } catch (const core::Error& error) {
        reasons[static_cast<std::size_t>(i)] = error.what();
      }
    }
  });
  std::vector<UnreadableImage> unreadable;
  for (std::int64_t i = 0; i < count; ++i)
    if (std::string& reason = reasons[static_cast<std::size_t>(i)]; !reason.empty())
      unreadable.push_back({.index = i, .reason = std::move(reason)});
  return unreadable;
}

std::vector<std::int64_t> unreadable_classes(const ImageFiles& images, const std::vector<UnreadableImage>& unreadable) {
  std::vector<std::int64_t> readable(images.classes.size(), 0), found(images.classes.size(), 0);
  for (const ImageFile& file : images.files) ++readable[static_cast<std::size_t>(file.label)];
  for (const auto& [index, reason] : unreadable) {
    const auto label = static_cast<std::size_t>(images.files[static_cast<std::size_t>(index)].label);
    --readable[label];
    ++found[label];
  }
  std::vector<std::int64_t> classes;
  for (std::size_t label = 0; label < found.size(); ++label)
    if (found[label] > 0 && readable[label] == 0) classes.push_back(static_cast<std::int64_t>(label));
  return classes;
}

void leave_out(const std::vector<UnreadableImage>& unreadable, ImageFiles& images) {
  for (const auto& [index, reason] : unreadable) images.files[static_cast<std::size_t>(index)].name.clear();
  std::erase_if(images.files, [](const ImageFile& file) { return file.name.empty(); });
}

}  // namespace tandem::data
