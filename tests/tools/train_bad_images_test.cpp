// `train` on folders with images that cannot be read, and on folders that changed since a checkpoint was made.
#include "tests/tools/train_images.h"

namespace tandem::train {
namespace {

class TrainBadImages : public TrainImages {
 protected:
  TrainBadImages() { write_photographs(); }

  /// What all but the first and last bytes are lost of: only decoding tells.
  void damage(const std::string& name) const {
    std::string bytes = read_text(folder_ / name);
    std::fill(bytes.begin() + 2, bytes.end() - 2, '\0');
    write(name, bytes);
  }
  /// The table at a run's start, on one line each.
  std::string overview(const std::string& more) const { return train_well(kFolder + more + " --summary").output; }

  static std::string empty(const std::string& name) { return name + ": is empty, needed a JPEG or PNG file"; }
};

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
}

// The same as if they were not there, on all ranks and in a run that goes on.
TEST_F(TrainBadImages, are_left_out_and_counted) {
  const std::string common = std::string(kFolder) + "--eval-every 0 ";
  train_well(common + "--steps 3 --metrics clean");
  write("data/train/a/0.jpg", "no image");
  write("data/train/b/z.heic", std::string("\0\0\0\x1c"
                                           "ftypheic",
                                           12));
  const Outcome outcome = train_well(common + "--steps 3 --skip-bad-images --metrics skipped");
  expect_in("left out 2 of 6 images in data/train: data/train/a/0.jpg, byte 0: is no image", outcome.output);
  expect_in("; data/train/b/z.heic: is a HEIC file; only JPEG and PNG files are read, convert it\n", outcome.output);
  EXPECT_EQ(hash("skipped"), hash("clean"));
  train_well(common + "--steps 2 --skip-bad-images --checkpoint-dir c");
  train_well(common + "--steps 3 --skip-bad-images --checkpoint-dir c --resume --metrics resumed");
  EXPECT_EQ(hash("resumed"), hash("clean"));
}

TEST_F(TrainBadImages, the_first_are_named_and_the_rest_counted) {
  for (const char digit : {'0', '1', '2', '3', '4', '5', '6'}) {
    write(std::string("data/train/a/") + digit + ".jpg", "");
    write(std::string("data/val/b/") + digit + ".txt", "by the window");
  }
  std::string first;
  for (const char digit : {'0', '1', '2', '3', '4'})
    first += empty(std::string("data/train/a/") + digit + ".jpg") + "; ";
  expect_failure(kFolder, 1, "train: error: " + first + "and 2 more; --skip-bad-images leaves out what cannot be read");
  const std::string table = overview("--skip-bad-images");
  expect_in("left out 7 of 11 images in data/train: " + first + "and 2 more\n", table);
  expect_in("7 in data/val are no images by their names: b/0.txt, b/1.txt, b/2.txt, b/3.txt, b/4.txt, and 2 more\n",
            table);
}

// A class without images would be an output that nothing teaches.
TEST_F(TrainBadImages, a_class_that_has_no_others_is_an_error) {
  for (const char* name : {"data/train/b/cmyk.jpg", "data/train/b/grey.jpg", "data/train/a/photo.jpg"}) write(name, "");
  for (const std::string more : {"", "--skip-bad-images"})
    expect_failure(kFolder + more, 1,
                   "train: error: data/train: no image of the class b can be read, so it cannot be learned: " +
                       empty("data/train/b/cmyk.jpg") + "; " + empty("data/train/b/grey.jpg"));
  write("data/train/a/420.jpg", "");
  expect_failure(std::string(kFolder) + "--skip-bad-images", 1,
                 "data/train: no image of the classes a, b can be read, so they cannot be learned: " +
                     empty("data/train/a/420.jpg") + "; " + empty("data/train/a/photo.jpg"));
}

TEST_F(TrainBadImages, a_class_that_cannot_be_evaluated_is_named) {
  write("data/val/b/cmyk.jpg", "");
  damage("data/val/b/grey.jpg");
  const std::string table = overview("--skip-bad-images");
  expect_in("left out 2 of 4 images in data/val: data/val/b/cmyk.jpg", table);
  expect_in("no image is left to evaluate these classes on: b\n", table);
  write("data/val/a/photo.jpg", "");
  write("data/val/a/420.jpg", "");
  expect_failure(std::string(kFolder) + "--skip-bad-images", 1,
                 "train: error: data/val: no image can be read: " + empty("data/val/a/420.jpg"));
}

TEST_F(TrainBadImages, a_test_image_that_is_cut_off_is_found_before_training) {
  const fs::path grey = folder_ / "data/val/b/grey.jpg";
  fs::resize_file(grey, fs::file_size(grey) / 2);
  expect_failure(std::string(kFolder) + "--out run", 1, "data/val/b/grey.jpg, byte ");
  train_well(std::string(kFolder) + "--out run --skip-bad-images --epochs 2 --eval-every 1");
  EXPECT_EQ(metrics("run/metrics.jsonl").back()["done"], true);
}

// Found by the first evaluation: its ends are as they should be, and it is none of the few that are read at the start.
TEST_F(TrainBadImages, a_damaged_test_image_costs_no_update) {
  const std::string bad = "data/val/a/13.jpg", good = read_text(folder_ / "data/val/b/grey.jpg");
  for (int i = 10; i < 26; ++i) write(fmt::format("data/val/a/{}.jpg", i), good);
  const std::string common = std::string(kFolder) + "--checkpoint-every 100 ";
  const auto expect_kept = [&](const Outcome& outcome, const std::string& run) {
    EXPECT_EQ(outcome.code, 1) << outcome.errors;
    expect_in(bad + ", byte ", outcome.last_error);
    EXPECT_TRUE(fs::exists(folder_ / run / "checkpoints/step-0000000002.safetensors")) << run << outcome.errors;
  };
  damage(bad);
  expect_kept(train(common + "--epochs 2 --out middle"), "middle");
  expect_kept(train(common + "--epochs 1 --out end --save-weights w"), "end");
  EXPECT_TRUE(fs::exists(folder_ / "w"));
  expect_kept(launch(2, common + "--batch-size 1 --epochs 2 --out ranks"), "ranks");  // which rank 1 reads
  write(bad, good);
  train_well(common + "--epochs 2 --out middle --resume");
  std::vector<int> evaluated;
  for (const auto& line : metrics("middle/metrics.jsonl"))
    if (line.contains("eval_loss")) evaluated.push_back(line["step"]);
  EXPECT_EQ(evaluated, (std::vector<int>{2, 4}));
}

TEST_F(TrainBadImages, a_run_does_not_go_on_over_other_images) {
  const std::string common = std::string(kFolder) + "--eval-every 0 --checkpoint-dir c ";
  train_well(common + "--steps 1");
  const auto expect_refused = [&] { expect_failure(common + "--steps 2 --resume", 1, "comes from a run with "); };
  const std::string photo = "data/train/a/photo.jpg", pixels = read_text(folder_ / photo);
  write(photo, pixels + " ");  // decoded as before, and none of the samples that are compared
  expect_refused();
  write(photo, pixels);
  fs::rename(folder_ / photo, folder_ / "data/train/a/photograph.jpg");
  expect_refused();
  fs::rename(folder_ / "data/train/a/photograph.jpg", folder_ / photo);
  fs::copy_file(folder_ / photo, folder_ / "data/train/b/photo.jpg");
  expect_refused();
  fs::remove(folder_ / "data/train/b/photo.jpg");
  fs::rename(folder_ / "data", folder_ / "elsewhere");
  fs::remove(folder_ / "elsewhere/val/a/photo.jpg");  // what it is evaluated on may change
  train_well(common + "--steps 2 --resume --data imagefolder:elsewhere");
}

}  // namespace
}  // namespace tandem::train
