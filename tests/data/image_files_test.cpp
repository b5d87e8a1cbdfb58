#include "tandem/data/images/image_files.h"

#include <algorithm>

#include "tests/data/temporary_folder.h"
#include "tests/data/unprivileged.h"

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

// Empty files, with the folders above them.
void put(const TemporaryFolder& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    fs::create_directories((folder / name).parent_path());
    folder.put(name, "");
  }
}

std::vector<std::string> listed(const ImageFiles& images) {
  std::vector<std::string> all;
  for (const ImageFile& file : images.files) all.push_back(fmt::format("{} {}", file.label, file.name));
  return all;
}

std::string error(const TemporaryFolder& folder, Split split = Split::train) {
  std::string message = error_of([&] { list_image_files(folder.path(), split); });
  const std::string prefix = folder.path().string();
  for (std::size_t at; (at = message.find(prefix)) != std::string::npos;) message.replace(at, prefix.size(), "DIR");
  return message;
}

TEST(ImageFiles, SortedByClassAndName) {
  const TemporaryFolder folder;
  put(folder, {"train/b/2.jpg", "train/b/10.JPEG", "train/b/more/x.Jpg", "train/B/1.jpg", "train/a b/ü.jpeg",
               "train/b/notes.txt", "train/b/.hidden.jpg", "train/b/.hidden/1.jpg", "train/.cache/1.jpg",
               "train/README", "train/b/dir.jpg/inside.jpg", "val/b/1.jpg", "val/a b/1.jpg", "test/none/1.jpg"});
  const ImageFiles train = list_image_files(folder.path(), Split::train);
  EXPECT_EQ(train.classes, (std::vector<std::string>{"B", "a b", "b"}));
  EXPECT_EQ(listed(train), (std::vector<std::string>{"0 B/1.jpg", "1 a b/ü.jpeg", "2 b/10.JPEG", "2 b/2.jpg",
                                                     "2 b/dir.jpg/inside.jpg", "2 b/more/x.Jpg"}));
  EXPECT_EQ(train.path(0), folder / "train/B/1.jpg");
  const ImageFiles val = list_image_files(folder.path() / "", Split::test);
  EXPECT_EQ(val.classes, train.classes);  // numbers are train's, though B has no image here
  EXPECT_EQ(listed(val), (std::vector<std::string>{"1 a b/1.jpg", "2 b/1.jpg"}));
  EXPECT_EQ(val.path(1), folder / "val/b/1.jpg");
}

TEST(ImageFiles, BelowAFolderWithoutClasses) {
  const TemporaryFolder folder;
  put(folder, {"b/2.jpg", "b/10.png", "b/more/x.webp", "1.jpg", ".hidden.jpg", "b/._2.jpg", ".cache/1.jpg", "README"});
  std::vector<std::string> expected;
  for (const char* name : {"1.jpg", "b/10.png", "b/2.jpg", "b/more/x.webp"}) expected.push_back(folder / name);
  EXPECT_EQ(list_images_below(folder.path()), expected);
  fs::create_directory(folder / "none");
  EXPECT_TRUE(list_images_below(folder / "none").empty());
  EXPECT_EQ(error_of([&] { list_images_below(folder / "gone"); }),
            (folder / "gone").string() + ": cannot be listed: No such file or directory");
}

TEST(ImageFiles, TestWhereThereIsNoVal) {
  const TemporaryFolder folder;
  put(folder, {"train/a/1.jpg", "test/a/2.jpg"});
  EXPECT_EQ(listed(list_image_files(folder.path(), Split::test)), (std::vector<std::string>{"0 a/2.jpg"}));
}

TEST(ImageFiles, WithoutValATenthOfEachClassIsHeldOut) {
  const TemporaryFolder folder;
  std::vector<std::string> names{"train/one/1.jpg", "train/two/1.jpg", "train/two/2.jpg"};
  for (int i = 0; i < 1000; ++i) names.push_back(fmt::format("train/many/{}.jpg", i));
  put(folder, names);
  const ImageFiles train = list_image_files(folder.path(), Split::train);
  const ImageFiles test = list_image_files(folder.path(), Split::test);
  EXPECT_EQ(train.held_out, kUsualHeldOut);
  std::vector<std::string> both = listed(train), held_out = listed(test);
  const auto of_class = [](const std::vector<std::string>& all, char label) {
    return std::ranges::count_if(all, [&](const std::string& line) { return line[0] == label; });
  };
  EXPECT_NEAR(of_class(held_out, '0'), 100, 30);
  EXPECT_EQ(of_class(held_out, '1'), 0) << "a class keeps its only image to be trained on";
  EXPECT_EQ(of_class(held_out, '2'), 1);
  both.insert(both.end(), held_out.begin(), held_out.end());
  std::ranges::sort(both);
  EXPECT_EQ(std::ranges::adjacent_find(both), both.end());
  EXPECT_EQ(both.size(), names.size());
  put(folder, {"train/many/new.jpg"});
  std::vector<std::string> later = listed(list_image_files(folder.path(), Split::test));
  std::erase(later, "0 many/new.jpg");
  EXPECT_EQ(later, held_out) << "a file stays where it is while others come";
  EXPECT_NEAR(std::ssize(list_image_files(folder.path(), Split::test, 0.5).files), 500, 60);
  put(folder, {"val/one/1.jpg"});
  EXPECT_EQ(error_of([&] { list_image_files(folder.path(), Split::train, 0.5); }),
            "no images can be held out for testing: " + (folder / "val").string() + " is for that");
}

TEST(ImageFiles, ClassesAloneAreForTraining) {
  const TemporaryFolder folder;
  put(folder, {"b/1.jpg", "b/2.png", "a/1.jpg", "notes.txt"});
  const ImageFiles train = list_image_files(folder.path(), Split::train);
  EXPECT_EQ(train.folder, folder.path());
  EXPECT_EQ(train.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(train.other_files, std::vector<std::string>{"notes.txt"});
  EXPECT_EQ(train.files.size(), 2u);
  EXPECT_EQ(list_image_files(folder.path(), Split::test).files.size(), 1u);
}

TEST(ImageFiles, LinksAreFollowed) {
  const TemporaryFolder folder;
  put(folder, {"train/a/1.jpg", "val/a/1.jpg", "elsewhere/7.jpg", "elsewhere/deep/8.jpg"});
  fs::create_directory_symlink(folder / "elsewhere", folder / "train/linked");
  fs::create_symlink(folder / "elsewhere/7.jpg", folder / "train/a/0.jpg");
  fs::create_symlink(folder / "nowhere", folder / "train/a/broken.jpg");  // an error when it is read, not a gap
  EXPECT_EQ(
      listed(list_image_files(folder.path(), Split::train)),
      (std::vector<std::string>{"0 a/0.jpg", "0 a/1.jpg", "0 a/broken.jpg", "1 linked/7.jpg", "1 linked/deep/8.jpg"}));
  fs::create_directory_symlink(folder / "train/a", folder / "train/a/again");
  expect_contains(error(folder), "cannot be listed: Too many levels of symbolic links");
}

TEST(ImageFiles, WrongFolders) {
  const TemporaryFolder folder;
  expect_contains(error_of([&] { list_image_files(folder / "nowhere", Split::train); }), "nowhere: is no folder");
  EXPECT_EQ(error(folder), "DIR: no classes, expected DIR/CLASS/*.jpg");
  fs::create_directory(folder / "alone");
  EXPECT_EQ(error(folder),
            "DIR: holds one folder alone, 'alone', expected a folder for each class, or 'train' and 'val'");
  fs::remove(folder / "alone");
  fs::create_directory(folder / "val");
  EXPECT_EQ(error(folder), "DIR: has no folder 'train', expected DIR/train/CLASS/*.jpg beside DIR/val");
  fs::remove(folder / "val");
  fs::create_directory(folder / "train");
  EXPECT_EQ(error(folder), "DIR/train: no classes, expected DIR/train/CLASS/*.jpg");
  put(folder, {"train/a/1.jpg", "train/b/1.txt", "train/b/deep/2.txt"});
  EXPECT_EQ(error(folder), "DIR/train/b: a class without images, expected *.jpg or *.png there");
  put(folder, {"train/b/1.jpg"});
  put(folder, {"val/a/1.jpg", "val/c/1.jpg"});
  EXPECT_EQ(error(folder, Split::test), "DIR/val/c: a class that DIR/train lacks");
  fs::remove_all(folder / "val/c");
  fs::create_directories(folder / "val/b");
  EXPECT_EQ(error(folder, Split::test), "DIR/val/b: a class without images, expected *.jpg or *.png there");
}

TEST(ImageFiles, NoImageIsLeftOutSilently) {
  const TemporaryFolder folder;
  put(folder, {"train/a/1.jpg", "train/2.jpg"});
  EXPECT_EQ(error(folder), "DIR/train/2.jpg: lies in no class's folder, expected DIR/train/CLASS/2.jpg");
  fs::remove(folder / "train/2.jpg");
  put(folder, {"train/a/2.jfif", "train/a/3.png", "train/a/deep/4.WebP", "train/a/5.txt", "train/6"});
  const ImageFiles images = list_image_files(folder.path(), Split::train, 1e-9);
  EXPECT_EQ(images.files.size() + list_image_files(folder.path(), Split::test, 1e-9).files.size(), 4u);
  EXPECT_EQ(images.other_files, (std::vector<std::string>{"6", "a/5.txt"}));
}

TEST(ImageFiles, TheHashIsOfNamesAndSizes) {
  const TemporaryFolder folder, elsewhere;
  const auto hash = [](const TemporaryFolder& its) { return hash_of(list_image_files(its.path(), Split::train)); };
  for (const TemporaryFolder* its : {&folder, &elsewhere}) {
    put(*its, {"train/a/1.jpg", "train/b/2.jpg", "val/a/1.jpg"});
    its->put("train/a/1.jpg", "pixels");
  }
  const std::uint64_t before = hash(folder);
  EXPECT_EQ(hash(elsewhere), before) << "the same wherever the folder lies";
  put(folder, {"val/b/1.jpg", "train/a/notes.txt"});
  EXPECT_EQ(hash(folder), before);
  folder.put("train/a/1.jpg", "pixel");
  EXPECT_NE(hash(folder), before);
  folder.put("train/a/1.jpg", "pixels");
  EXPECT_EQ(hash(folder), before);
  fs::rename(folder / "train/a/1.jpg", folder / "train/a/3.jpg");
  EXPECT_NE(hash(folder), before);
  fs::rename(folder / "train/a/3.jpg", folder / "train/a/1.jpg");
  put(folder, {"train/a/3.jpg"});
  EXPECT_NE(hash(folder), before);
}

TEST(ImageFiles, AFolderThatMayNotBeRead) {
  const TemporaryFolder folder;
  put(folder, {"train/a/1.jpg", "train/a/deep/1.jpg"});
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(folder / "train/a/deep", fs::perms::none);
  {
    const Unprivileged nobody;
    EXPECT_EQ(error(folder), "DIR/train/a/deep: cannot be listed: Permission denied");
  }
  fs::permissions(folder / "train/a/deep", fs::perms::all);
}

}  // namespace
}  // namespace tandem::data
