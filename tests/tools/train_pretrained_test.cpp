// Weights that come with words, sizes and heads: nothing that is missing beside them is silently replaced.
#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

class TrainPretrained : public TrainTest {
 protected:
  TrainPretrained() {
    write("small.json", R"({"vocab_size": 61, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32,
                            "max_position_embeddings": 12, "num_attention_heads": 2})");
    std::string text;
    for (int i = 0; i < 120; ++i)
      text += fmt::format("the {} cat sat on the {} mat\n{}", i % 7, i % 11, i % 3 == 2 ? "\n" : "");
    write("corpus.txt", text);
    for (char& letter : text) letter = letter == 'c' ? 'b' : letter;
    write("other.txt", text);
  }

  static std::string on(const std::string& corpus) {
    return "--data text:" + corpus + " --seq-length 12 --threads 1 --progress none ";
  }
  double loss(const std::string& arguments) const {
    train_well(arguments + " --metrics m");
    return metrics("m").front().at("eval_loss");
  }
  void save_model(const std::string& more) const {
    train_well(
        "--model bert --model-config small.json --batch-size 8 --epochs 6 --lr 0.02 --save-model saved "
        "--eval-every 0 " +
        on("corpus.txt") + more);
  }

  static constexpr const char* kSaved = "--model bert --init-weights saved --eval-only ";
};

TEST_F(TrainPretrained, tokenizer_json_alone_is_the_vocabulary) {
  save_model("");
  const double expected = loss(kSaved + on("other.txt"));  // whose words would be others, if they were learned
  fs::remove(folder_ / "saved/vocab.txt");
  EXPECT_EQ(loss(kSaved + on("other.txt")), expected);
  fs::remove(folder_ / "saved/tokenizer_config.json");
  EXPECT_EQ(loss(kSaved + on("other.txt")), expected);
  EXPECT_EQ(loss(kSaved + on("other.txt") + "--vocab saved/tokenizer.json"), expected);
  fs::remove(folder_ / "saved/tokenizer.json");
  expect_failure(kSaved + on("other.txt"), 2,
                 "--init-weights saved: has neither tokenizer.json nor vocab.txt, so which words its embeddings are is "
                 "not known; give --vocab");
}

TEST_F(TrainPretrained, switches_of_tokenizer_json_are_read) {
  save_model("--cased");
  fs::remove(folder_ / "saved/vocab.txt");
  fs::remove(folder_ / "saved/tokenizer_config.json");
  train_well("--model bert --init-weights saved --steps 1 --out run --save-model copy " + on("corpus.txt"));
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_ / "run/config.json")).at("cased"), true);
  EXPECT_EQ(read_text(folder_ / "copy/tokenizer.json"), read_text(folder_ / "saved/tokenizer.json"));
  EXPECT_NE(read_text(folder_ / "copy/tokenizer_config.json").find("\"do_lower_case\": false"), std::string::npos);
}

TEST_F(TrainPretrained, a_file_of_weights_knows_its_words) {
  const std::string model = "--model bert --model-config small.json ";
  train_well(model + on("corpus.txt") + "--steps 1 --eval-every 0 --save-weights w");
  train_well(model + on("corpus.txt") + "--eval-only --init-weights w");  // learned again, and the same
  expect_failure(model + on("other.txt") + "--eval-only --init-weights w", 1,
                 "--init-weights w: was trained with another vocabulary than the one that --data text:other.txt gives");
  const core::TensorMap weights = core::load_safetensors(path("w"));
  core::save_safetensors(path("bare"), {weights.begin(), weights.end()});
  expect_failure(
      model + on("corpus.txt") + "--eval-only --init-weights bare", 1,
      "--init-weights bare: does not say which words its embeddings are, and --data text:corpus.txt would be "
      "cut by a new vocabulary: give --vocab");
}

TEST_F(TrainPretrained, sizes_are_the_folders) {
  save_model("");
  std::string config = read_text(folder_ / "small.json");
  config.replace(config.find("heads\": 2"), 9, "heads\": 4");
  write("heads.json", config);
  expect_failure(kSaved + on("corpus.txt") + "--model-config heads.json", 1,
                 "--init-weights saved: its config.json says \"num_attention_heads\": 2, but --model-config heads.json "
                 "says 4; --model bert alone takes the folder's");
}

TEST_F(TrainPretrained, heads_that_are_missing_are_not_evaluated) {
  save_model("");
  core::TensorMap weights = core::load_safetensors(path("saved/model.safetensors"));
  std::erase_if(weights, [](const auto& one) { return one.first.starts_with("cls."); });
  core::save_safetensors(path("saved/model.safetensors"), {weights.begin(), weights.end()});
  expect_failure(kSaved + on("corpus.txt"), 1, "--eval-only needs all weights of the model; missing: cls.");
  train_well(kSaved + on("corpus.txt") + "--save-outputs o");  // hidden states do not need them
  train_well("--model bert --init-weights saved --steps 1 " + on("corpus.txt"));
}

}  // namespace
}  // namespace tandem::train
