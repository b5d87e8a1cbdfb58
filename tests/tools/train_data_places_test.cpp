// Data may lie elsewhere on each rank, if the contents are the same; if not, all ranks end with the same error.
#include <list>

#include "tests/tools/rank_processes.h"
#include "tests/tools/train_images.h"

namespace tandem::train {
namespace {

class DataPlaces : public TrainImages {
 protected:
  /// Two ranks by hand, each with its own --data.
  void start(RankProcesses& ranks, const std::string& common, const std::string& first, const std::string& second) {
    const int port = ports_.emplace_back().number();
    int rank = 0;
    for (const std::string& data : {first, second})
      ranks.start(fmt::format(
          "'{}' --rank {} --world-size 2 --init tcp://127.0.0.1:{} --threads 1 --progress none --eval-every "
          "0 --batch-size 2 --steps 1 --metrics m {} --data {}",
          TANDEM_TRAIN, rank++, port, common, data));
  }
  void expect_same(const std::string& common, const std::string& first, const std::string& second) {
    RankProcesses ranks(folder_);
    start(ranks, common, first, second);
    for (const std::size_t i : {0U, 1U}) EXPECT_EQ(ranks.wait(i).code, 0) << ranks.errors(i);
    EXPECT_EQ(hash("m"), hash("m.rank1"));
  }
  /// Both say the same, in one line, which `cause` begins.
  void expect_different(const std::string& common, const std::string& first, const std::string& second,
                        const std::string& cause) {
    RankProcesses ranks(folder_);
    start(ranks, common, first, second);
    for (const std::size_t i : {0U, 1U}) {
      EXPECT_EQ(ranks.wait(i).code, 1) << ranks.errors(i);
      EXPECT_TRUE(ranks.wait(i).last_error.starts_with("train: error: what the ranks read differ: " + cause))
          << ranks.errors(i);
      EXPECT_EQ(ranks.errors(i), ranks.wait(i).last_error + "\n");
    }
    EXPECT_EQ(ranks.errors(0), ranks.errors(1));
  }

 private:
  std::list<HeldPort> ports_;
};

TEST_F(DataPlaces, tensors) {
  write_rows("a.safetensors", 40);
  write_rows("b.safetensors", 40);
  write_rows("c.safetensors", 41);
  expect_same("--model mlp", "tensors:a.safetensors", "tensors:b.safetensors");
  expect_different("--model mlp", "tensors:a.safetensors", "tensors:c.safetensors",
                   "rank 0 has 40 training and 40 test samples, rank 1 has 41 training and 41 test samples");
}

TEST_F(DataPlaces, image_folders) {
  write_photographs();
  fs::copy(folder_ / "data", folder_ / "copy", fs::copy_options::recursive);
  const std::string model = "--model resnet18 --image-size 32";
  expect_same(model, "imagefolder:data", "imagefolder:copy");
  fs::rename(folder_ / "copy/val/a/photo.jpg", folder_ / "copy/val/a/other.jpg");  // what is evaluated counts, too
  expect_different(model, "imagefolder:data", "imagefolder:copy", "rank 0 has data with hash ");
  fs::remove(folder_ / "copy/val/a/other.jpg");
  expect_different(model, "imagefolder:data", "imagefolder:copy",
                   "rank 0 has 4 training and 4 test samples, rank 1 has 4 training and 3 test samples");
}

TEST_F(DataPlaces, text) {
  write("small.json", R"({"vocab_size": 61, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32,
                          "max_position_embeddings": 12, "num_attention_heads": 2})");
  std::string text;
  for (int i = 0; i < 120; ++i)
    text += fmt::format("the {} cat sat on the {} mat\n{}", i % 7, i % 11, i % 3 == 2 ? "\n" : "");
  write("a.txt", text);
  write("b.txt", text);
  const std::string line = "the 2 cat sat on the 8 mat";  // far from the samples of which all is compared
  const std::size_t place = text.find(line);
  ASSERT_NE(place, text.npos);
  write("c.txt", text.replace(place, line.size(), "the 2 mat sat on the 8 cat"));
  const std::string model = "--model bert --model-config small.json --seq-length 12";
  expect_same(model, "text:a.txt", "text:b.txt");
  expect_different(model, "text:a.txt", "text:c.txt", "rank 0 has data with hash ");
}

}  // namespace
}  // namespace tandem::train
