// `train --init-weights` with weights for other classes, `--freeze`, and what the classes are called afterwards.
#include <set>

#include "tests/data/images.h"
#include "tests/tools/train_ranks.h"

namespace tandem::train {
namespace {

constexpr const char* kSmall =
    "--model resnet18 --data synthetic --synthetic-samples 8 --image-size 16 --threads 1 --batch-size 4 "
    "--eval-every 0 --progress none ";
constexpr const char* kTrunk = "--freeze 'conv1,bn1,layer*' ";

class TrainTransfer : public TrainRanks {
 protected:
  /// A file of weights for seven classes.
  void write_seven() const {
    train_well(std::string(kSmall) + "--classes 7 --steps 2 --lr 0.001 --save-weights seven");
  }

  core::TensorMap load(const std::string& file) const { return core::load_safetensors(folder_ / file); }

  /// `make_name` gives a tensor's other name, or "" to leave it out.
  template <class MakeName>
  void rewrite(const std::string& from, const std::string& to, MakeName&& make_name) const {
    core::StateDict tensors;
    for (const auto& [name, tensor] : load(from))
      if (const std::string other = make_name(name); !other.empty()) tensors.emplace_back(other, tensor);
    core::save_safetensors(folder_ / to, tensors);
  }

  /// Names, up to the first dot, of the tensors that differ between two files; "fc" if it is only there.
  std::set<std::string> changed_parts(const std::string& before, const std::string& after) const {
    const core::TensorMap a = load(before), b = load(after);
    std::set<std::string> parts;
    for (const auto& [name, tensor] : a)
      if (tensor.to_vector<double>() != b.at(name).to_vector<double>()) parts.insert(name.substr(0, name.find('.')));
    return parts;
  }

  std::string classes_in(const std::string& file) const {
    core::Metadata metadata;
    core::load_safetensors(folder_ / file, &metadata);
    return metadata["classes"];
  }

  static void expect_part(const Outcome& outcome, const std::string& part) {
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in\n" << outcome.output;
  }
};

using Parts = std::set<std::string>;

TEST_F(TrainTransfer, a_new_head_on_a_frozen_trunk) {
  write_seven();
  const std::string three = std::string(kSmall) + "--classes 3 --init-weights seven " + kTrunk;
  const Outcome outcome = train_well(three + "--steps 2 --save-weights three");
  expect_part(outcome, "  model       resnet18, 11,170,371 parameters (11,168,832 frozen), weights from seven\n");
  expect_part(outcome, "  weights     not all: fc is new, for 3 classes; the file's is for 7\n");
  EXPECT_EQ(load("three").at("fc.weight").shape(), (core::Shape{3, 512}));
  EXPECT_EQ(changed_parts("seven", "three"), Parts{"fc"});  // nor do the batch norms' statistics move
  // A run goes on with the same frozen part, and with no other.
  train_well(three + "--steps 3 --metrics whole");
  train_well(three + "--steps 2 --checkpoint-dir c");
  expect_failure(std::string(kSmall) + "--classes 3 --steps 3 --checkpoint-dir c --resume", 1,
                 "comes from a run with --freeze conv1,bn1,layer*, this one has nothing");
  train_well(three + "--steps 3 --checkpoint-dir c --resume --metrics resumed");
  EXPECT_EQ(hash("resumed"), hash("whole"));
  // The optimizer remembers only what is trained: fc's weight and bias.
  int entries = 0;
  for (const auto& [name, tensor] : load("c/step-0000000003.safetensors")) entries += name.starts_with("optimizer.");
  EXPECT_EQ(entries, 2);
}

TEST_F(TrainTransfer, ranks_train_what_is_not_frozen) {
  write_seven();
  const std::string three = std::string(kSmall) + "--classes 3 --init-weights seven --freeze 'conv1,bn?,*.bn1' ";
  launch_well(2, three + "--steps 2 --save-weights three --metrics m");
  const Parts all{"fc", "layer1", "layer2", "layer3", "layer4"};
  EXPECT_EQ(changed_parts("seven", "three"), all);
  const core::TensorMap three_classes = load("three");
  for (const auto& [name, tensor] : load("seven")) {
    if (name.find("bn1") == name.npos) continue;
    EXPECT_EQ(tensor.to_vector<double>(), three_classes.at(name).to_vector<double>()) << name;
  }
}

TEST_F(TrainTransfer, the_summary_shows_what_is_frozen) {
  const Outcome outcome = train_well(std::string(kSmall) + "--classes 3 --summary --freeze conv1,bn1,layer1.0.conv1");
  expect_part(outcome,
              "parameters  frozen  multiply-adds\n"
              "  conv1                  conv2d                [4, 64, 16, 16]       1,728   1,728        442,368\n"
              "  bn1                    batch_norm_inference  [4, 64, 16, 16]         128     128              -\n"
              "  layer1.0.conv1         conv2d                [4, 64, 16, 16]      36,864  36,864      9,437,184\n"
              "  layer1.0.bn1           batch_norm            [4, 64, 16, 16]         128       -              -\n");
  expect_part(outcome, "  total                                                         11,170,371  38,720");
  expect_part(train_well(std::string(kSmall) + "--classes 3 --summary " + kTrunk),
              "\n  parameters        42.6 MiB\n"
              "  gradients          6.1 KiB  they lie in the buckets, which are sent as they are\n"
              "  optimizer state    6.0 KiB  momentum_buffer\n");
}

TEST_F(TrainTransfer, names_that_freeze_nothing) {
  const auto expect_error = [&](const std::string& patterns, const std::string& error) {
    expect_failure(std::string(kSmall) + "--freeze '" + patterns + "'", 1, "--freeze " + error);
  };
  const std::string unknown = ": the model has no parameter or module of that name; ";
  expect_error("conv1,layr1", "layr1" + unknown + "did you mean layer1 or layer2 or layer3 or layer4?");
  expect_error("layer5*", "layer5*" + unknown + "did you mean layer1 or layer2 or layer3 or layer4?");
  expect_error("head", "head" + unknown + "the model's parts are conv1, bn1, layer1, layer2, layer3, layer4, fc");
  expect_error("conv1,", unknown + "the model's parts are conv1, bn1, layer1, layer2, layer3, layer4, fc");
  expect_error("*", "*: leaves no parameter to train");
}

// These have no part that is for other classes: weights of another model are an error, not a reason to begin anew.
TEST_F(TrainTransfer, models_without_a_head_take_all_weights_or_none) {
  const std::string tiny = "--data synthetic --synthetic-samples 4 --threads 1 --progress none --eval-every 0 ";
  train_well(tiny + "--model mlp --save-weights w");
  expect_failure(tiny + "--model mlp-large --init-weights w", 1,
                 "--init-weights w: do not fit model mlp-large: load_state_dict: missing: fc3.weight fc3.bias");
  expect_failure(tiny + "--model convnet --init-weights w", 1, "--init-weights w: do not fit model convnet: ");
}

TEST_F(TrainTransfer, weights_as_other_programs_leave_them) {
  write_seven();
  const std::string seven = std::string(kSmall) + "--classes 7 --steps 1 --lr 0 --freeze 'conv1,bn1,layer*' ";
  const auto expect_same = [&](const std::string& file) {
    train_well(seven + "--init-weights " + file + " --save-weights again");
    EXPECT_EQ(changed_parts("seven", "again"), Parts{}) << file;
  };
  expect_same("seven");
  rewrite("seven", "parallel", [](const std::string& name) { return "module." + name; });
  expect_same("parallel");
  rewrite("seven", "trunk", [](const std::string& name) { return name.starts_with("fc.") ? "" : name; });
  expect_part(train_well(seven + "--init-weights trunk"), "not all: fc is new, for 7 classes; the file has none\n");
  rewrite("seven", "old", [](const std::string& name) { return name.ends_with("num_batches_tracked") ? "" : name; });
  train_well(seven + "--init-weights old --save-weights again");
  EXPECT_EQ(load("again").at("bn1.num_batches_tracked").item(), 0);
  rewrite("seven", "cut", [](const std::string& name) { return name == "layer1.0.conv1.weight" ? "" : name; });
  expect_failure(seven + "--init-weights cut", 1,
                 "--init-weights cut: do not fit model resnet18: load_state_dict: missing: layer1.0.conv1.weight");
  expect_failure(seven + "--init-weights seven --stem imagenet", 1,
                 "load_state_dict: conv1.weight has shape [64, 3, 3, 3], the model's is [64, 3, 7, 7]; --stem small "
                 "has the file's shape");
  expect_failure(std::string(kSmall) + "--classes 3 --eval-only --init-weights seven", 1,
                 "--init-weights seven: cannot be evaluated on --data synthetic: fc is new, for 3 classes; the file's "
                 "is for 7");
}

TEST_F(TrainTransfer, files_of_torch_save_are_recognised) {
  const std::string advice =
      "as torch.save writes, needed a safetensors file; this converts it: python3 -c \"import torch; from "
      "safetensors.torch import save_file; save_file({name: tensor.contiguous().clone() for name, tensor in "
      "torch.load('x.pth', map_location='cpu', weights_only=True).items()}, 'x.safetensors')\"";
  write("x.pth", "PK\x03\x04 and so on");
  expect_failure(std::string(kSmall) + "--init-weights x.pth", 1, "--init-weights x.pth: is a zip archive, " + advice);
  write("x.pth", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9");
  expect_failure(std::string(kSmall) + "--init-weights x.pth", 1, "--init-weights x.pth: is a pickle, " + advice);
}

TEST_F(TrainTransfer, class_names_are_saved_with_weights) {
  write_seven();
  data::GoldenImages golden;
  for (const std::string split : {"train", "val"})
    for (const std::string label : {"b \"quoted\"", "a", "ü"}) {
      fs::create_directories(folder_ / "data" / split / label);
      std::ofstream(folder_ / "data" / split / label / "1.jpg", std::ios::binary) << golden.file("420");
    }
  const std::string folder =
      "--model resnet18 --data imagefolder:data --image-size 16 --threads 1 --progress none --eval-every 0 --steps 1 ";
  train_well(folder + "--save-weights w --checkpoint-dir c");
  const std::string names = R"(["a","b \"quoted\"","ü"])";
  EXPECT_EQ(classes_in("w"), names);
  EXPECT_EQ(classes_in("c/step-0000000001.safetensors"), names);
  train_well(folder + "--classes 4 --save-weights w");
  EXPECT_EQ(classes_in("w"), R"(["a","b \"quoted\"","ü","3"])");
  EXPECT_EQ(classes_in("seven"), "");  // synthetic classes have no names
  for (const std::string split : {"train", "val"})
    fs::rename(folder_ / "data" / split / "a", folder_ / "data" / split / "c");
  expect_failure(folder + "--steps 2 --checkpoint-dir c --resume", 1, "comes from a run with classes " + names);
  train_well("--model mlp --steps 1 --threads 1 --progress none --eval-every 0 --save-weights w");
  EXPECT_TRUE(classes_in("w").starts_with(R"(["T-shirt/top","Trouser",)")) << classes_in("w");
}

}  // namespace
}  // namespace tandem::train
