// `train` on images: ResNets on folders of photographs, and what the images' size and number of classes decide.
#include "tests/tools/train_images.h"

namespace tandem::train {
namespace {

TEST_F(TrainImages, a_resnet_on_a_folder_of_photographs) {
  write_photographs();
  const std::string common = std::string(kFolder) + "--stem imagenet ";
  train_well(common + "--steps 3 --metrics whole --save-weights w --save-outputs o");
  train_well(common + "--steps 3 --metrics threads --data-threads 3 --save-outputs p");
  EXPECT_EQ(hash("whole"), hash("threads"));
  EXPECT_EQ(largest_difference("o", "p"), 0);
  EXPECT_EQ(shape_of("o", "output"), (core::Shape{4, 2}));
  EXPECT_EQ(shape_of("w", "fc.weight"), (core::Shape{2, 512}));
  EXPECT_EQ(shape_of("w", "conv1.weight"), (core::Shape{64, 3, 7, 7}));
  // Weights, momentum and the batch norms' buffers come back.
  train_well(common + "--steps 2 --checkpoint-dir c");
  train_well(common + "--steps 3 --checkpoint-dir c --resume --metrics resumed --save-weights r");
  EXPECT_EQ(hash("whole"), hash("resumed"));
  EXPECT_EQ(largest_difference("w", "r"), 0);
  // Training draws what part of an image it takes, evaluation does not.
  train_well(common + "--steps 3 --seed 1 --metrics other --init-weights w --lr 0");
  train_well(common + "--eval-only --init-weights w --metrics once");
  EXPECT_NE(losses("other"), losses("whole"));
  train_well(common + "--eval-only --init-weights w --metrics again --seed 5");
  EXPECT_EQ(metrics("once").front()["eval_loss"], metrics("again").front()["eval_loss"]);
}

TEST_F(TrainImages, size_and_data_decide_stem_channels_and_classes) {
  const auto summary = [&](const std::string& arguments) {
    return train_well("--summary --threads 1 --batch-size 2 " + arguments).output;
  };
  const auto expect_line = [](std::string text, const std::string& part) {
    const auto both_are_spaces = [](char a, char b) { return a == ' ' && b == ' '; };
    text.erase(std::unique(text.begin(), text.end(), both_are_spaces), text.end());  // columns have any width
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  };
  expect_line(summary("--model resnet18 --data synthetic --synthetic-samples 8"),
              "conv1 conv2d [2, 64, 112, 112] 9,408 118,013,952\n");
  expect_line(summary("--model resnet18 --data synthetic --synthetic-samples 8 --image-size 32 --classes 7"),
              "conv1 conv2d [2, 64, 32, 32] 1,728 1,769,472\n");
  write_rows("rows.safetensors", 4);
  const std::string grey = summary("--model resnet18 --data tensors:rows.safetensors");
  expect_line(grey, "conv1 conv2d [2, 64, 28, 28] 576 451,584\n");  // one channel, small stem
  expect_line(grey, "fc linear [2, 8] ");                           // classes 0, 7, 4, 1
  expect_line(summary("--model resnet18 --data tensors:rows.safetensors --classes 10 --stem imagenet"),
              "conv1 conv2d [2, 64, 14, 14] 3,136 614,656\n");
}

// A setting of the rank's memory: the same weights, and a run may go on with it.
TEST_F(TrainImages, recompute_gives_the_same_weights) {
  const std::string common =
      "--model resnet18 --data synthetic --synthetic-samples 12 --image-size 16 --threads 1 --batch-size 2 "
      "--eval-every 0 --progress none ";
  train_well(common + "--steps 3 --metrics kept");
  const Outcome outcome = train_well(common + "--steps 3 --recompute --metrics again");
  EXPECT_NE(outcome.output.find("seed 0, activations computed again in backward\n"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(hash("again"), hash("kept"));
  EXPECT_EQ(losses("again"), losses("kept"));
  train_well(common + "--steps 2 --checkpoint-dir c");
  train_well(common + "--steps 3 --checkpoint-dir c --resume --recompute --metrics resumed");
  EXPECT_EQ(hash("resumed"), hash("kept"));
}

TEST_F(TrainImages, what_does_not_go_together) {
  write_photographs();
  expect_failure("--model convnet --image-size 32", 2,
                 "--image-size is for --data imagefolder, and synthetic with a ResNet, not for --data fashion-mnist");
  expect_failure("--model bert-tiny --data imagefolder:data", 2,
                 "--model bert-tiny reads text, --data imagefolder:data are images");
  expect_failure("--model convnet --recompute", 2, "--recompute is for ResNets and BERTs, not for --model convnet");
  expect_failure("--model convnet --stem small", 2, "--stem is for ResNets, not for --model convnet");
  expect_failure("--model convnet --data imagefolder:data", 1,
                 "--model convnet does not take --data imagefolder:data, samples of shape [3, 224, 224]");
  expect_failure(std::string(kFolder) + "--classes 1", 1,
                 "--model resnet18 tells 1 classes apart, --data imagefolder:data has 2");
  expect_failure("--model resnet18 --data imagefolder:nowhere", 1, "nowhere");
  fs::create_directory(folder_ / "data/train/empty");
  expect_failure(kFolder, 1, "empty");
  fs::remove(folder_ / "data/train/empty");
  const fs::path photo = folder_ / "data/train/a/photo.jpg";
  fs::resize_file(photo, fs::file_size(photo) / 2);
  expect_failure(kFolder, 1, "photo.jpg");
  std::ofstream(photo, std::ios::binary) << "RIFF....WEBPVP8 and so on";
  expect_failure(kFolder, 1,
                 "data/train/a/photo.jpg: is a WebP file; only JPEG and PNG files are read, convert it; "
                 "--skip-bad-images leaves out what cannot be read");
  expect_failure("--model convnet --skip-bad-images", 2,
                 "--skip-bad-images is for --data imagefolder, not for --data fashion-mnist");
  expect_failure("--model convnet --val-fraction 0.5", 2,
                 "--val-fraction is for --data imagefolder, not for --data fashion-mnist");
  expect_failure(std::string(kFolder) + "--val-fraction 0.5", 1,
                 "no images can be held out for testing: data/val is for that");
}

TEST_F(TrainImages, without_val_some_are_held_out) {
  write_photographs();
  fs::remove_all(folder_ / "data/val");
  const Outcome outcome = train_well(std::string(kFolder) + "--steps 1 --save-outputs o");
  EXPECT_NE(outcome.output.find("10 % of each class are held out to evaluate on, by their names (--val-fraction)"),
            std::string::npos)
      << outcome.output;
  EXPECT_EQ(shape_of("o", "output"), (core::Shape{2, 2}));
}

}  // namespace
}  // namespace tandem::train
