// The program `predict`, and `train --eval-only --from`: what a finished run is good for.
#include <sstream>

#include "tests/data/images.h"
#include "tests/tools/rank_processes.h"
#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

class PredictTest : public TrainTest {
 protected:
  PredictTest() {
    write("small.json", R"({"vocab_size": 61, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32,
                            "max_position_embeddings": 12, "num_attention_heads": 2})");
    std::string text;
    for (int i = 0; i < 120; ++i)
      text += fmt::format("the {} cat sat on the {} mat\n{}", i % 7, i % 11, i % 3 == 2 ? "\n" : "");
    write("corpus.txt", text);
  }

  Outcome run(const std::string& arguments) const { return shell("'" TANDEM_PREDICT "' " + arguments); }
  std::string predict(const std::string& arguments) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.errors;
    return outcome.output;
  }
  void expect_error(const std::string& arguments, int code, const std::string& message) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments;
    EXPECT_EQ(outcome.errors, "predict: error: " + message + "\n") << arguments;
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  void pre_train() const {
    train_well(
        "--model bert --model-config small.json --data text:corpus.txt --seq-length 12 --batch-size 8 --epochs 12 "
        "--lr 0.02 --dropout 0 --threads 1 --progress none --out run --metrics m");
  }
};

TEST_F(PredictTest, a_run_is_evaluated_by_its_folder_alone) {
  pre_train();
  const auto trained = metrics("run/metrics.jsonl");
  const double expected = trained[trained.size() - 2].at("eval_loss");
  fs::remove(folder_ / "small.json");  // the folder has what it said
  train_well("--eval-only --from run --threads 1 --progress none --metrics e");
  EXPECT_NEAR(metrics("e").front().at("eval_loss").get<double>(), expected, 1e-6);
  // What one run wrote is not written again, and its weights can be had.
  train_well("--eval-only --from run --threads 1 --progress none --batch-size 3 --save-weights w --save-model saved");
  EXPECT_TRUE(fs::exists(folder_ / "saved/tokenizer.json"));
  train_well(
      "--model bert --init-weights saved --eval-only --data text:corpus.txt --seq-length 12 --threads 1 "
      "--progress none --metrics again");
  EXPECT_NEAR(metrics("again").front().at("eval_loss").get<double>(), expected, 1e-6);
  fs::remove(folder_ / "run/tokenizer.json");
  expect_failure("--eval-only --from run --threads 1 --progress none", 1,
                 "--from run: has no tokenizer.json, so which words its embeddings are is not known; give --vocab");
}

TEST_F(PredictTest, a_run_of_two_ranks_is_evaluated_by_one) {
  RankProcesses ranks(folder_);
  for (int r = 0; r < 2; ++r)
    ranks.start(fmt::format("'" TANDEM_TRAIN "' --model resnet18 --data synthetic --image-size 32 --classes 5 "
                            "--synthetic-samples 16 --batch-size 4 --threads 1 --progress none --out run "
                            "--rank {} --world-size 2 --init file://{}",
                            r, path("store")));
  for (const std::size_t r : {0u, 1u}) ASSERT_EQ(ranks.wait(r).code, 0) << ranks.errors(r);
  const auto trained = metrics("run/metrics.jsonl");
  train_well("--eval-only --from run --threads 1 --progress none --metrics e --save-weights w");
  EXPECT_NEAR(metrics("e").front().at("eval_loss").get<double>(),
              trained[trained.size() - 2].at("eval_loss").get<double>(), 1e-4);
  EXPECT_EQ(core::load_safetensors(path("w")).at("fc.weight").size(0), 5);
  expect_error("--from run x.jpg", 1,
               "the run was trained on --data synthetic, which does not say how an image becomes its samples");
}

TEST_F(PredictTest, from_is_for_a_finished_run) {
  expect_failure("--from run", 2, "--from run: is no run folder of train, it has no config.json");
  train_well("--model mlp --data synthetic --synthetic-samples 8 --steps 1 --threads 1 --progress none --out run");
  expect_failure("--from run", 2, "--from needs --eval-only");
  expect_failure("--from run --eval-only --init-weights w", 2, "--from takes the run's own weights");
  expect_failure("--from run --eval-only --out run --overwrite", 2, "--out and --from are the same folder, run");
  fs::remove_all(folder_ / "run/checkpoints");
  expect_failure("--from run --eval-only", 1, "--from run: has no checkpoint in run/checkpoints");
}

TEST_F(PredictTest, fills_masks) {
  pre_train();
  write("lines.txt", "the cat [MASK] on the [MASK]\r\n\"[MASK]\", cat\n");
  const auto lines = lines_of(predict("--from run lines.txt --top 2 --threads 1"));
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "input,mask,rank,word,probability");
  EXPECT_TRUE(lines[1].starts_with("the cat [MASK] on the [MASK],1,1,")) << lines[1];
  EXPECT_TRUE(lines[4].starts_with("the cat [MASK] on the [MASK],2,2,")) << lines[4];
  EXPECT_TRUE(lines[5].starts_with("\"\"\"[MASK]\"\", cat\",1,1,")) << lines[5];
  write("none.txt", "the cat\n");
  expect_error("--from run none.txt", 1,
               "none.txt, line 1: has no [MASK], which the model, a masked language model, could fill");
  expect_error("--from run lines.txt none.txt", 1,
               "none.txt, line 1: has no [MASK], which the model, a masked language model, could fill");
  write("long.txt", "the cat sat on the mat the cat sat on the mat [MASK]\n");
  expect_error("--from run long.txt", 1,
               "long.txt, line 1: 15 tokens, the model takes 12; with --truncate lines are cut");
  // As a folder of Hugging Face's, the same.
  train_well("--eval-only --from run --threads 1 --progress none --save-model saved");
  EXPECT_EQ(predict("--weights saved lines.txt --top 2 --threads 1"),
            predict("--from run lines.txt --top 2 --threads 1"));
}

TEST_F(PredictTest, classifies_lines) {
  train_well(
      "--model bert --model-config small.json --data text:corpus.txt --seq-length 12 --steps 1 --eval-every 0 "
      "--threads 1 --progress none --save-model words");
  std::vector<std::int64_t> ids, labels;
  const std::string config = R"({"id2label": {"0": "bad, or so", "1": "good"}, )";
  write("two.json", config + read_text(folder_ / "small.json").substr(1));
  for (std::int64_t row = 0; row < 16; ++row) {
    for (const std::int64_t token : {std::int64_t{2}, row % 2 ? std::int64_t{30} : std::int64_t{40}, std::int64_t{3}})
      ids.push_back(token);
    labels.push_back(row % 2);
  }
  core::save_safetensors(path("rows.safetensors"),
                         {{"input_ids", core::Tensor::from(ids, {16, 3})}, {"labels", core::Tensor::from(labels)}});
  train_well(
      "--model bert --model-config two.json --data tensors:rows.safetensors --batch-size 8 --epochs 30 --lr 0.01 "
      "--dropout 0 --threads 1 --progress none --out run");
  write("lines.txt", "the cat\nsat on\nmat\n");
  const std::string words = " --vocab words/tokenizer.json --threads 1 ";
  expect_error("--from run lines.txt", 2, "--vocab is needed: run has no words (tokenizer.json)");
  const auto lines = lines_of(predict("--from run lines.txt --top 5" + words));
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "input,rank,class,probability");
  EXPECT_TRUE(lines[1].starts_with("the cat,1,")) << lines[1];
  EXPECT_EQ((lines[1] + lines[2]).find("\"bad, or so\"") == std::string::npos, false) << lines[1] << lines[2];
  predict("--from run lines.txt -o o.safetensors" + words);
  const auto tensors = core::load_safetensors(path("o.safetensors"));
  EXPECT_EQ(tensors.at("logits").shape(), (core::Shape{3, 2}));
  const auto shares = tensors.at("probabilities").to_vector<float>();
  EXPECT_NEAR(shares[0] + shares[1], 1, 1e-6);
  EXPECT_EQ(predict("--from run - -o o.csv" + words + "< lines.txt"), "");
  EXPECT_EQ(lines_of(read_text(folder_ / "o.csv")).size(), 4u);
  write("marked.txt", "\xef\xbb\xbfthe cat\nsat on\nmat\n");
  EXPECT_EQ(predict("--from run - --top 5" + words + "< marked.txt"), predict("--from run lines.txt --top 5" + words));
  // One word of the third line has no finite embedding.
  train_well("--eval-only --from run --threads 1 --progress none --save-weights w");
  auto weights = core::load_safetensors(path("w"));
  const auto vocabulary = lines_of(read_text(folder_ / "words/vocab.txt"));
  const auto mat = std::find(vocabulary.begin(), vocabulary.end(), "mat") - vocabulary.begin();
  ASSERT_LT(mat, std::ssize(vocabulary));
  core::Tensor& embeddings = weights.at("bert.embeddings.word_embeddings.weight");
  embeddings.mutable_data<float>()[mat * embeddings.size(1)] = NAN;
  core::save_safetensors(path("broken"), {weights.begin(), weights.end()});
  expect_error("--weights broken --model bert --model-config two.json lines.txt" + words, 1,
               "the model gives values that are not finite for mat");
}

TEST_F(PredictTest, classes_of_images_are_those_of_the_runs_own_evaluation) {
  data::GoldenImages golden;
  for (const std::string split : {"train", "val"})
    for (const auto& [label, kind] :
         {std::pair{"a, dog", "photo"}, {"a, dog", "420"}, {"cat", "grey"}, {"cat", "cmyk"}}) {
      fs::create_directories(folder_ / "data" / split / label);
      std::ofstream(folder_ / "data" / split / label / (std::string(kind) + ".jpg"), std::ios::binary)
          << golden.file(kind);
    }
  train_well(
      "--model resnet18 --data imagefolder:data --image-size 32 --threads 1 --batch-size 2 --progress none "
      "--steps 3 --out run --save-weights w --save-outputs o");
  predict("--from run data/val --threads 1 --batch-size 2 -o p.safetensors");
  const auto expected = core::load_safetensors(path("o")).at("output").to_vector<float>();
  const auto logits = core::load_safetensors(path("p.safetensors")).at("logits").to_vector<float>();
  ASSERT_EQ(logits.size(), expected.size());
  for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-4);
  const auto lines = lines_of(predict("--from run data/val data/train/cat/grey.jpg --top 2 --threads 1"));
  ASSERT_EQ(lines.size(), 11u);
  EXPECT_EQ(lines[0], "input,rank,class,probability");
  const std::string first = "\"data/val/a, dog/420.jpg\",1,";
  const bool is_dog = expected[0] > expected[1];
  EXPECT_TRUE(lines[1].starts_with(first + (is_dog ? "\"a, dog\"," : "cat,"))) << lines[1];
  EXPECT_TRUE(lines[9].starts_with("data/train/cat/grey.jpg,1,")) << lines[9];
  // Without the run: from the file of weights, which names the classes.
  EXPECT_EQ(predict("--weights w --model resnet18 --image-size 32 data/val --threads 1 --batch-size 2"),
            predict("--from run data/val --threads 1 --batch-size 2"));
  // What begins with a dot is left alone, as in training: thumbnails, and what macOS puts beside a file.
  const std::string before = predict("--from run data --threads 1");
  write("data/val/cat/._grey.jpg", "no image");
  EXPECT_EQ(predict("--from run data --threads 1"), before);
  fs::create_directory_symlink("..", folder_ / "data/val/loop");
  const Outcome loop = run("--from run data --threads 1");
  EXPECT_TRUE(loop.last_error.ends_with(": cannot be listed: Too many levels of symbolic links")) << loop.errors;
  fs::remove(folder_ / "data/val/loop");
  fs::create_symlink("nowhere", folder_ / "data/val/cat/x.jpg");
  expect_error("--from run data", 1, "data/val/cat/x.jpg: cannot be opened: No such file or directory");
  write("x.txt", "x");
  EXPECT_EQ(run("--from run x.txt").code, 1);
  fs::create_directory(folder_ / "none");
  expect_error("--from run none", 1, "none: has no image (.jpg, .png, ...)");
}

TEST_F(PredictTest, paths_need_not_be_utf_8_and_output_must_arrive) {
  fs::rename(folder_ / "corpus.txt", folder_ / "c\xe9.txt");
  train_well(
      "--model bert --model-config small.json --data 'text:c\xe9.txt' --seq-length 12 --steps 1 --threads 1 "
      "--progress none --out 'run\xe9'");
  const auto config = nlohmann::json::parse(read_text(folder_ / "run\xe9/config.json"));
  EXPECT_EQ(config.at("data").dump(), R"({"bytes":"746578743a63e92e747874"})");
  train_well("--eval-only --from 'run\xe9' --threads 1 --progress none");
  train_well("--config 'run\xe9/config.json' --out plain --checkpoint-dir 'kept\xe9' --threads 1 --progress none");
  train_well("--eval-only --from plain --threads 1 --progress none");
  for (const std::string program : {TANDEM_TRAIN, TANDEM_PREDICT, TANDEM_TOKENIZE, TANDEM_LAUNCH, TANDEM_BENCH}) {
    const Outcome outcome = shell("'" + program + "' --help > /dev/full");
    EXPECT_EQ(outcome.code, 1) << program;
    EXPECT_NE(outcome.errors.find("error: standard output cannot be written"), std::string::npos) << outcome.errors;
  }
  EXPECT_EQ(shell("'" TANDEM_TRAIN "' --model mlp --data synthetic --summary --threads 1 > /dev/full").code, 1);
}

TEST_F(PredictTest, a_text_of_its_own_for_the_evaluation) {
  write("other.txt", "the cat sat\n\nthe mat\n");
  const std::string common =
      "--model bert --model-config small.json --seq-length 12 --threads 1 --progress none "
      "--data text:corpus.txt --steps 1 --eval-every 0 ";
  const std::string own = train_well(common + "--eval-data other.txt").output, split = train_well(common).output;
  EXPECT_NE(own.find("and 1 test samples"), std::string::npos) << own;
  EXPECT_NE(own.find("1 test samples: their loss says little; --eval-data takes a text of its own"), std::string::npos);
  EXPECT_EQ(split.find("and 1 test samples"), std::string::npos) << split;
  write("empty.txt", "\n");
  expect_failure(common + "--eval-data empty.txt", 1, "--data text:corpus.txt: empty.txt: holds no text");
  expect_failure("--model mlp --data synthetic --eval-data other.txt", 2,
                 "--eval-data is for --data text and wordnet, not for --data synthetic");
}

TEST_F(PredictTest, WrongUsage) {
  write("w", "");
  expect_error("x", 2, "one of --from and --weights is needed: a run folder of train, or a file of weights");
  expect_error("x --weights w -o o.txt", 2, "-o 'o.txt': must be a file whose name ends with .csv or .safetensors");
  expect_error("x --weights w --top 0", 2, "--top '0': must be a whole number >= 1");
  expect_error("x --from none", 2, "--from none: is no run folder of train, it has no config.json");
  expect_error("--weights w", 2, "INPUT is required (see --help)");
  expect_error("--weights w x -o none/o.csv", 1, "none/o.csv: cannot be created: No such file or directory");
  expect_error("--weights w x", 1, "w, byte 0: the file ends within the 8 bytes of the header's length");
}

}  // namespace
}  // namespace tandem::train
