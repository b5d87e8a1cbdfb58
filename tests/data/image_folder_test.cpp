#include "tandem/data/images/image_folder.h"

#include "tandem/core/parallel.h"
#include "tandem/data/images/image_check.h"
#include "tandem/data/images/jpeg.h"
#include "tandem/data/images/png.h"
#include "tandem/data/loader.h"
#include "tests/data/images.h"
#include "tests/data/unprivileged.h"

namespace tandem::data {
namespace {

using core::Shape;

// train: photo and 420 are of the class a, grey and cmyk of b; val: photo of b.
class ImageFolderTest : public ::testing::Test {
 protected:
  ImageFolderTest() {
    for (const char* name : {"train/a", "train/b", "val/b"}) std::filesystem::create_directories(folder_ / name);
    folder_.put("train/a/1.jpg", golden_.file("photo"));
    folder_.put("train/a/2.JPG", golden_.file("420"));
    folder_.put("train/b/3.jpeg", golden_.file("grey"));
    folder_.put("train/b/4.jpg", golden_.file("cmyk"));
    folder_.put("val/b/5.jpg", golden_.file("photo"));
  }

  static std::vector<float> floats(const ImageFolder& images, std::vector<std::int64_t> indices,
                                   const EpochContext& context = {}) {
    return images.read(indices, context).input.to_vector<float>();
  }
  std::string reading_error(const std::string& bytes) {
    folder_.put("train/a/1.jpg", bytes);
    const ImageFolder images(folder_.path(), Split::train);
    return error_of([&] { images.read(range(4)); });
  }

  GoldenImages golden_;
  TemporaryFolder folder_;
};

// [S, S, 3] bytes to [3, S, S] floats.
std::vector<float> normalized_planes(const Tensor& rgb) {
  const auto bytes = rgb.to_vector<int>();
  std::vector<float> planes;
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = c; i < bytes.size(); i += 3) planes.push_back(normalized(bytes[i], kImageNetNormalization[c]));
  return planes;
}

TEST_F(ImageFolderTest, EvaluationIsTorchvisions) {
  const ImageFolder val(folder_.path(), Split::test, {.image_size = 32});
  EXPECT_EQ(val.size(), 1);
  EXPECT_EQ(val.classes(), 2);
  EXPECT_EQ(val.class_names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(val.path(0), folder_ / "val/b/5.jpg");
  const Batch batch = val.read(range(1));
  EXPECT_EQ(batch.input.shape(), (Shape{1, 3, 32, 32}));
  EXPECT_EQ(batch.target.to_vector<int>(), (std::vector<int>{1}));
  EXPECT_EQ(batch.input.to_vector<float>(), normalized_planes(golden_.pixels("middle")));  // resized to 36
  const ImageFolder larger(folder_.path(), Split::test, {.image_size = 32, .shorter_side = 171});
  EXPECT_EQ(floats(larger, {0}), normalized_planes(golden_.pixels("middle_enlarged")));
}

TEST_F(ImageFolderTest, EvaluationDrawsNothing) {
  const ImageFolder train(folder_.path(), Split::train);
  EXPECT_EQ(train.sample_shape(), (Shape{3, 224, 224}));
  const Batch batch = train.read(range(4), {.seed = 1, .epoch = 2});
  EXPECT_EQ(batch.target.to_vector<int>(), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(batch.input.to_vector<float>(), floats(train, range(4), {.seed = 3, .epoch = 4}));
}

TEST_F(ImageFolderTest, AugmentationIsAFunctionOfSeedEpochAndIndex) {
  const ImageFolder train(folder_.path(), Split::train, {.image_size = 24, .augment = true});
  const auto once = floats(train, {0}, {.seed = 1, .epoch = 3});
  EXPECT_EQ(train.read(std::vector<std::int64_t>{2, 0}, {.seed = 1, .epoch = 3}).input.select(0, 1).to_vector<float>(),
            once);
  EXPECT_NE(floats(train, {0}, {.seed = 1, .epoch = 4}), once);
  EXPECT_NE(floats(train, {0}, {.seed = 2, .epoch = 3}), once);
  const Tensor photo = decode_jpeg(golden_.file("photo"), "photo.jpg");
  const Framing framing = random_framing(150, 201, 24, {}, sample_stream({.seed = 1, .epoch = 3}, 0, Draw::augment));
  std::vector<float> expected;
  const auto bytes = resize(photo, framing).to_vector<int>();
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < 24 * 24; ++i) {
      const std::size_t x = framing.mirrored ? 23 - i % 24 : i % 24;
      expected.push_back(normalized(bytes[(i / 24 * 24 + x) * 4 + c], kImageNetNormalization[c]));
    }
  EXPECT_EQ(once, expected);
}

TEST_F(ImageFolderTest, BothWaysRound) {
  const RandomCrop whole{.area = {1, 1}, .aspect_ratio = {1, 1}, .mirrored = 0};
  RandomCrop turned = whole;
  turned.mirrored = 1;
  const auto plain =
      floats(ImageFolder(folder_.path(), Split::train, {.image_size = 24, .augment = true, .crop = whole}), {0});
  auto mirrored =
      floats(ImageFolder(folder_.path(), Split::train, {.image_size = 24, .augment = true, .crop = turned}), {0});
  EXPECT_NE(mirrored, plain);
  for (auto row = mirrored.begin(); row != mirrored.end(); row += 24) std::reverse(row, row + 24);
  EXPECT_EQ(mirrored, plain);
}

TEST_F(ImageFolderTest, TheSameBitsWithAnyNumberOfThreads) {
  const ImageFolder train(folder_.path(), Split::train, {.image_size = 40, .augment = true});
  std::vector<std::int64_t> many;
  for (std::int64_t i = 0; i < 30; ++i) many.push_back(i * 7 % 4);
  const int threads = core::num_threads();
  core::set_num_threads(1);
  const auto expected = floats(train, many, {.seed = 5});
  for (const int count : {2, 3, 8}) {
    core::set_num_threads(count);
    EXPECT_EQ(floats(train, many, {.seed = 5}), expected);
  }
  core::set_num_threads(threads);
}

TEST_F(ImageFolderTest, ADamagedFileIsAnErrorOfReading) {
  const std::string path = (folder_ / "train/a/1.jpg").string();
  const std::string photo = golden_.file("photo");
  EXPECT_EQ(reading_error(photo.substr(0, 9000)), path + ", byte 9000: cannot be decoded: Premature end of JPEG file");
  EXPECT_EQ(reading_error(""), path + ": is empty, needed a JPEG or PNG file");
  EXPECT_EQ(reading_error("GIF89a"), path + ": is a GIF file; only JPEG and PNG files are read, convert it");
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  {
    const ImageFolder images(folder_.path(), Split::train);
    const Unprivileged nobody;
    EXPECT_EQ(error_of([&] { images.read(range(1)); }), path + ": cannot be opened: Permission denied");
  }
  std::filesystem::remove(path);
  std::filesystem::create_symlink(folder_ / "nowhere", path);
  const ImageFolder images(folder_.path(), Split::train);
  EXPECT_EQ(error_of([&] { images.read(range(1)); }), path + ": cannot be opened: No such file or directory");
}

TEST_F(ImageFolderTest, ContentsDecideAndNotNames) {
  folder_.put("train/a/1.jpg", golden_.png("rgb"));
  const Tensor png = decode_png(golden_.png("rgb"), "rgb.png");
  const ImageFolder images(folder_.path(), Split::train, {.image_size = 8});
  EXPECT_EQ(floats(images, {0}),
            normalized_planes(resize(png, center_framing(png.size(0), png.size(1), 8, 9)).slice(2, 0, 3)));
}

TEST_F(ImageFolderTest, WhatCannotBeReadIsFoundBefore) {
  folder_.put("train/a/2.JPG", golden_.file("420").substr(0, 500));
  folder_.put("train/b/3.jpeg", "GIF89a");
  std::string damaged = golden_.file("photo");  // its ends are as they should be
  std::fill(damaged.begin() + 2, damaged.end() - 2, '\0');
  folder_.put("train/a/1.jpg", damaged);
  const ImageFiles files = list_image_files(folder_.path(), Split::train);
  const auto found = [&](ImageCheck depth) {
    std::vector<std::int64_t> indices;
    for (const UnreadableImage& image : find_unreadable(files, depth)) {
      EXPECT_TRUE(image.reason.starts_with(files.path(image.index).string())) << image.reason;
      indices.push_back(image.index);
    }
    return indices;
  };
  EXPECT_EQ(found(ImageCheck::ends), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(found(ImageCheck::all), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_F(ImageFolderTest, WhatCannotBeReadIsLeftOutAndItsClassKnown) {
  folder_.put("train/a/1.jpg", "");
  folder_.put("train/a/2.JPG", "");
  folder_.put("train/b/3.jpeg", "");
  ImageFiles files = list_image_files(folder_.path(), Split::train);
  const auto unreadable = find_unreadable(files, ImageCheck::ends);
  EXPECT_EQ(unreadable_classes(files, unreadable), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(unreadable_classes(files, {}), (std::vector<std::int64_t>{}));
  leave_out(unreadable, files);
  ASSERT_EQ(files.files.size(), 1U);
  EXPECT_EQ(files.files[0].name, "b/4.jpg");
  EXPECT_EQ(files.files[0].label, 1) << "classes keep their numbers";
}

TEST_F(ImageFolderTest, ErrorsReachWhoTrains) {
  folder_.put("train/b/4.jpg", golden_.file("cmyk").substr(0, 1000));
  const auto images = std::make_shared<ImageFolder>(folder_.path(), Split::train);
  for (const int threads : {1, 3}) {
    Loader loader(images, Sampler({.samples = 4, .batch_size = 3}), {.threads = threads});
    loader.begin_epoch({});
    EXPECT_TRUE(loader.next_window());
    EXPECT_EQ(error_of([&] { loader.next_window(); }),
              (folder_ / "train/b/4.jpg").string() + ", byte 1000: cannot be decoded: Premature end of JPEG file");
  }
}

TEST_F(ImageFolderTest, WrongOptions) {
  const auto error = [&](const ImageFolderOptions& options) {
    return error_of([&] { ImageFolder(folder_.path(), Split::train, options); });
  };
  EXPECT_EQ(error({.image_size = 0}), "image folder: images of size 0, needed 1 to 16384");
  EXPECT_EQ(error({.image_size = 64, .shorter_side = 63}),
            "image folder: a shorter side of 63, needed 64 (the image size) to 32768");
  EXPECT_EQ(error({.crop = {.area = {0, 1}}}),
            "image folder: crops of 0 to 1 of the area, needed above 0, in order, to 1");
  EXPECT_EQ(error({.crop = {.aspect_ratio = {2, 1}}}),
            "image folder: aspect ratios of 2 to 1, needed above 0, in order");
  EXPECT_EQ(error({.crop = {.mirrored = 1.5}}), "image folder: mirrored with probability 1.5, needed 0 to 1");
}

}  // namespace
}  // namespace tandem::data
