// `train` on text: BERT in one process and on several ranks, from a corpus and from tensors, and folders as Hugging
// Face's.
#include "tandem/models/bert_config.h"
#include "tests/tools/rank_processes.h"
#include "tests/tools/train_ranks.h"

namespace tandem::train {
namespace {

using core::DType;
using core::Tensor;

class TrainText : public TrainRanks {
 protected:
  TrainText() { write("small.json", config()); }

  /// Two layers of 16, 61 tokens, 12 positions.
  static std::string config(int heads = 2) {
    return R"({"vocab_size": 61, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32,
               "max_position_embeddings": 12, "num_attention_heads": )" +
           std::to_string(heads) + "}";
  }

  /// `rows` sequences for --data tensors:NAME. Row r has as many tokens to predict as `labelled(r)` says.
  template <class Labelled>
  void write_sequences(const std::string& name, std::int64_t rows, bool pairs, Labelled&& labelled) const {
    constexpr std::int64_t kLength = 9;
    std::vector<std::int64_t> ids, mask, labels, next;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < kLength; ++i) {
        const bool is_token = i < 4 + row % 6;
        ids.push_back(is_token ? 1 + (row * 31 + i * i * 7) % 60 : 0);
        mask.push_back(is_token);
        labels.push_back(i < labelled(row) ? (row + 5 * i) % 61 : -100);
      }
      next.push_back(row % 2);
    }
    const core::Shape shape{rows, kLength};
    core::StateDict tensors{{"input_ids", Tensor::from(ids, shape)},
                            {"attention_mask", Tensor::from(mask, shape)},
                            {"labels", Tensor::from(labels, shape)}};
    if (pairs) tensors.emplace_back("next_sentence_label", Tensor::from(next));
    core::save_safetensors(folder_ / name, tensors);
  }

  static constexpr const char* kSmall = "--model bert --model-config small.json --threads 1 --progress none ";
};

/// Ranks, micro-steps, pairs, flags.
class BertOracle : public TrainText, public testing::WithParamInterface<std::tuple<int, int, bool, const char*>> {};

// Rows of some ranks have no token to predict; the last micro-step lacks a row.
TEST_P(BertOracle, ranks_train_as_one_process) {
  const auto [ranks, micro_steps, pairs, flags] = GetParam();
  const int all = ranks;
  write_sequences("rows.safetensors", 3 * ranks * micro_steps * 2 - 1, pairs,
                  [all](std::int64_t row) { return all > 1 && row % all == 1 ? 0 : 1 + row % 3; });
  const std::string common = std::string(kSmall) + kCommon +
                             "--data tensors:rows.safetensors --precision fp64 --steps 3 --optimizer sgd --decay all ";
  train_well(common + "--save-weights one.w --save-grads one.g --metrics one.m --batch-size " +
             std::to_string(ranks * micro_steps * 2));
  launch_well(ranks, common + flags +
                         " --save-weights many.w --save-grads many.g --metrics many.m --batch-size 2 "
                         "--accumulation-steps " +
                         std::to_string(micro_steps));
  EXPECT_LE(largest_difference("one.w", "many.w"), 1e-10);
  EXPECT_LE(largest_difference("one.g", "many.g"), 1e-10);
  const auto one = losses("one.m"), many = losses("many.m");
  ASSERT_EQ(many.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(one[i], many[i], 1e-10);
  for (int r = 1; r < ranks; ++r) EXPECT_EQ(hash("many.m"), hash("many.m.rank" + std::to_string(r)));
  EXPECT_EQ(metrics("many.m")[0].contains("next_sentence_loss"), pairs);
}

INSTANTIATE_TEST_SUITE_P(
    Train, BertOracle,
    testing::Values(std::tuple{1, 2, true, ""}, std::tuple{2, 1, true, ""}, std::tuple{2, 2, false, ""},
                    std::tuple{3, 1, true, "--find-unused-parameters"}, std::tuple{3, 2, false, "--bucket-cap-mb 0"},
                    std::tuple{4, 1, true, "--find-unused-parameters --bucket-order observed"},
                    std::tuple{4, 1, false, "--predict-all"}),
    [](const auto& tested) {
      return fmt::format("{}_ranks_{}_micro_steps{}_{}", std::get<0>(tested.param), std::get<1>(tested.param),
                         std::get<2>(tested.param) ? "_pairs" : "", tested.index);
    });

TEST_F(TrainText, logits_everywhere_or_at_predicted_tokens_give_the_same_weights) {
  write_sequences("rows.safetensors", 8, true, [](std::int64_t row) { return row % 3; });
  const std::string common =
      std::string(kSmall) + "--data tensors:rows.safetensors --precision fp64 --dropout 0 --steps 3 --batch-size 4 ";
  train_well(common + "--save-weights masked.w --metrics masked.m");
  train_well(common + "--save-weights all.w --metrics all.m --predict-all");
  EXPECT_LE(largest_difference("masked.w", "all.w"), 1e-12);
  EXPECT_NEAR(metrics("masked.m").back()["steps"], 3, 0);
  const auto masked = losses("masked.m"), all = losses("all.m");
  ASSERT_EQ(masked.size(), 3u);
  ASSERT_EQ(all.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(masked[i], all[i], 1e-12);
}

TEST_F(TrainText, a_window_without_anything_to_predict_changes_nothing) {
  // Of three updates of 2 x 2 rows the second has no label at all.
  write_sequences("rows.safetensors", 12, false, [](std::int64_t row) { return row / 4 == 1 ? 0 : 2; });
  const std::string common = std::string(kSmall) + "--data tensors:rows.safetensors --dropout 0 --eval-every 0 ";
  launch_well(2, common + "--batch-size 2 --steps 1 --save-weights first.w");
  launch_well(2, common + "--batch-size 2 --steps 2 --save-weights second.w --metrics m");
  EXPECT_EQ(largest_difference("first.w", "second.w"), 0);
  EXPECT_TRUE(metrics("m")[1]["loss"].is_null());
  EXPECT_EQ(metrics("m")[1]["all_reduces"], 0);
  EXPECT_EQ(hash("m"), hash("m.rank1"));
  launch_well(2, common + "--batch-size 2 --steps 3 --save-weights third.w");
  EXPECT_GT(largest_difference("second.w", "third.w"), 0);
}

std::string corpus() {
  std::string text;
  for (int i = 0; i < 120; ++i)
    text += fmt::format("the {} cat sat on the {} mat\n{}", i % 7, i % 11, i % 3 == 2 ? "\n" : "");
  return text;
}

TEST_F(TrainText, learns_a_corpus_and_comes_back_from_the_folder_that_it_wrote) {
  write("corpus.txt", corpus());
  const std::string common = std::string(kSmall) + "--data text:corpus.txt --seq-length 12 --batch-size 8 ";
  train_well(common + "--sentence-pairs --epochs 12 --lr 0.02 --dropout 0 --save-model saved --metrics m");
  const auto lines = metrics("m");
  const double first = lines.front()["masked_lm_loss"];
  EXPECT_LT(lines[lines.size() - 2]["eval_masked_lm_loss"], 0.7 * first);
  EXPECT_EQ(read_text(folder_ / "saved/config.json"),
            models::to_json(models::parse_bert_config(config(), "small.json"), "BertForPreTraining"));
  EXPECT_TRUE(read_text(folder_ / "saved/vocab.txt").starts_with("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"));

  // Configuration, weights and vocabulary are the folder's.
  const std::string again =
      "--model bert --init-weights saved --data text:corpus.txt --seq-length 12 --threads 1 "
      "--progress none --eval-only ";
  train_well(again + "--sentence-pairs --metrics again.m");
  EXPECT_NEAR(metrics("again.m").front()["eval_loss"].get<double>(), lines[lines.size() - 2]["eval_loss"], 1e-5);
  // Without pairs the heads of the other task are left out, and named.
  const Outcome outcome = train_well(again);
  EXPECT_NE(outcome.output.find("unexpected: bert.pooler.dense.bias bert.pooler.dense.weight "
                                "cls.seq_relationship.bias cls.seq_relationship.weight"),
            std::string::npos)
      << outcome.output;
}

TEST_F(TrainText, the_same_seed_gives_the_same_bits_also_after_a_resume) {
  write("corpus.txt", corpus());
  const std::string common = std::string(kSmall) + "--data text:corpus.txt --seq-length 12 --batch-size 4 ";
  train_well(common + "--steps 30 --metrics whole");
  train_well(common + "--steps 17 --checkpoint-dir c --metrics a --eval-every 0");
  train_well(common + "--steps 30 --checkpoint-dir c --metrics b --resume");
  EXPECT_EQ(hash("whole"), hash("b"));
  train_well(common + "--steps 30 --metrics other --seed 1");
  EXPECT_NE(hash("whole"), hash("other"));
}

TEST_F(TrainText, a_run_goes_on_with_the_same_data_and_model_only) {
  write("corpus.txt", corpus());
  std::string other = corpus();  // the same words under other names: equal numbers of tokens, other meanings
  for (char& letter : other) letter = letter == 'c' ? 'b' : letter;
  write("other.txt", other);
  write("heads.json", config(4));
  const std::string common =
      "--model bert --threads 1 --progress none --batch-size 4 --checkpoint-dir c --eval-every 0 ";
  train_well(common + "--model-config small.json --data text:corpus.txt --seq-length 12 --steps 3");
  const auto goes_on = [&](const std::string& more) { return common + "--steps 6 --resume " + more; };
  expect_failure(goes_on("--model-config small.json --data text:other.txt --seq-length 12"), 1, "training data ");
  std::string turned = corpus();  // two words in one line, far from the samples that are compared
  const std::size_t line = turned.find("the 2 cat sat on the 8 mat");
  ASSERT_NE(line, turned.npos);
  turned.replace(line, 26, "the 2 mat sat on the 8 cat");
  write("turned.txt", turned);
  expect_failure(goes_on("--model-config small.json --data text:turned.txt --seq-length 12"), 1, "training data ");
  std::string cut = corpus();  // the same tokens, one sentence more
  cut[line + 9] = '\n';
  write("cut.txt", cut);
  expect_failure(goes_on("--model-config small.json --data text:cut.txt --seq-length 12"), 1, "training data ");
  expect_failure(goes_on("--model-config small.json --data text:corpus.txt --seq-length 11"), 1,
                 "comes from a run with ");
  expect_failure(goes_on("--model-config heads.json --data text:corpus.txt --seq-length 12"), 1,
                 "comes from a run with model configuration ");
  train_well(goes_on("--model-config small.json --data text:corpus.txt --seq-length 12 --decay all"));
}

TEST_F(TrainText, ranks_with_other_models_are_told) {
  write("other.json", config(4));
  RankProcesses ranks(folder_);
  for (int r = 0; r < 2; ++r)
    ranks.start(fmt::format("'" TANDEM_TRAIN "' --model bert --model-config {} --threads 1 --data synthetic "
                            "--seq-length 12 --synthetic-samples 8 --steps 1 --progress none --rank {} --world-size 2 "
                            "--init file://{}",
                            r == 0 ? "small.json" : "other.json", r, path("store")));
  for (const std::size_t r : {0u, 1u}) {
    EXPECT_EQ(ranks.wait(r).code, 1) << ranks.errors(r);
    EXPECT_NE(ranks.wait(r).last_error.find("a model configuration with hash "), std::string::npos) << ranks.errors(r);
  }
}

TEST_F(TrainText, a_saved_folder_says_what_it_knows) {
  write("corpus.txt", corpus());
  const std::string common = std::string(kSmall) + "--eval-every 0 --steps 1 ";
  train_well(common + "--data text:corpus.txt --seq-length 12 --cased --save-model saved");
  EXPECT_NE(read_text(folder_ / "saved/tokenizer_config.json").find("\"do_lower_case\": false"), std::string::npos);
  // The next one is cased too, by the folder's word, and a copy keeps vocabulary and tokenizer.
  train_well(
      "--model bert --init-weights saved --data text:corpus.txt --seq-length 12 --threads 1 --progress none "
      "--steps 1 --out run --save-model copy");
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_ / "run/config.json")).at("cased"), true);
  EXPECT_EQ(read_text(folder_ / "copy/vocab.txt"), read_text(folder_ / "saved/vocab.txt"));
  // What is trained on tensors without a vocabulary does not claim the one that lay there.
  write_sequences("rows.safetensors", 4, false, [](std::int64_t) { return 1; });
  train_well(common + "--data tensors:rows.safetensors --save-model saved");
  EXPECT_FALSE(fs::exists(folder_ / "saved/vocab.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "saved/tokenizer_config.json"));
}

TEST_F(TrainText, initial_weights_and_resume_are_one_command) {
  write("corpus.txt", corpus());
  train_well(std::string(kSmall) +
             "--data text:corpus.txt --seq-length 12 --steps 1 --eval-every 0 --save-model saved");
  const std::string common =
      "--model bert --init-weights saved --data text:corpus.txt --seq-length 12 --threads 1 "
      "--progress none --batch-size 4 --eval-every 0 --checkpoint-dir c --resume ";
  train_well(common + "--steps 2");
  train_well(common + "--steps 4 --metrics m");
  EXPECT_EQ(losses("m").size(), 2u);
}

TEST_F(TrainText, three_hundred_layers_can_draw_their_dropout) {
  write("deep.json", R"({"vocab_size": 61, "hidden_size": 4, "num_hidden_layers": 300, "num_attention_heads": 1,
                         "intermediate_size": 4, "max_position_embeddings": 12})");
  train_well(
      "--model bert --model-config deep.json --data synthetic --seq-length 4 --synthetic-samples 4 --batch-size 2 "
      "--steps 1 --eval-every 0 --threads 1 --progress none");
}

TEST_F(TrainText, classifies_sequences) {
  write_sequences("tokens.safetensors", 20, false, [](std::int64_t) { return 0; });
  core::TensorMap tensors = core::load_safetensors(folder_ / "tokens.safetensors");
  std::vector<std::int64_t> classes;
  for (std::int64_t row = 0; row < 20; ++row) classes.push_back(row % 3);
  tensors["labels"] = Tensor::from(classes);
  core::save_safetensors(folder_ / "rows.safetensors", {tensors.begin(), tensors.end()});
  train_well(std::string(kSmall) +
             "--data tensors:rows.safetensors --batch-size 10 --epochs 60 --lr 0.01 --dropout 0 "
             "--eval-every 1000 --metrics m --save-outputs o --save-model saved");
  const auto lines = metrics("m");
  EXPECT_GE(lines[lines.size() - 2]["eval_accuracy"], 0.9);
  EXPECT_EQ(core::load_safetensors(folder_ / "o").at("output").shape(), (core::Shape{20, 3}));
  EXPECT_NE(read_text(folder_ / "saved/config.json").find("BertForSequenceClassification"), std::string::npos);

  // Fewer classes in other data: the model keeps its three.
  for (std::int64_t& label : classes) label %= 2;
  tensors["labels"] = Tensor::from(classes);
  core::save_safetensors(folder_ / "two.safetensors", {tensors.begin(), tensors.end()});
  train_well(
      "--model bert --init-weights saved --data tensors:two.safetensors --threads 1 --progress none --eval-only "
      "--save-outputs two.o");
  EXPECT_EQ(core::load_safetensors(folder_ / "two.o").at("output").shape(), (core::Shape{20, 3}));
  expect_failure(std::string(kSmall) + "--data tensors:rows.safetensors --classes 2", 1,
                 "--model bert tells 2 classes apart, --data tensors:rows.safetensors has 3");
  expect_failure(std::string(kSmall) + "--data tensors:rows.safetensors --predict-all", 1,
                 "--predict-all is for tokens to predict, --data tensors:rows.safetensors has a class for each sample");
}

// With dropout, for tokens and for classes.
TEST_F(TrainText, recompute_gives_the_same_weights) {
  write_sequences("rows.safetensors", 12, true, [](std::int64_t row) { return row % 4; });
  core::TensorMap tensors = core::load_safetensors(folder_ / "rows.safetensors");
  tensors.erase("next_sentence_label");
  tensors["labels"] = Tensor::arange(12);
  core::save_safetensors(folder_ / "classes.safetensors", {tensors.begin(), tensors.end()});
  for (const std::string rows : {"rows", "classes"}) {
    const std::string common =
        std::string(kSmall) + "--eval-every 0 --steps 3 --batch-size 4 --data tensors:" + rows + ".safetensors ";
    train_well(common + "--metrics kept");
    train_well(common + "--recompute --metrics again");
    EXPECT_EQ(hash("again"), hash("kept")) << rows;
  }
}

TEST_F(TrainText, outputs_are_hidden_states_in_the_order_of_rows) {
  write_sequences("rows.safetensors", 7, true, [](std::int64_t) { return 0; });
  train_well(std::string(kSmall) + "--data tensors:rows.safetensors --steps 1 --eval-every 0 --save-weights w");
  const std::string common = std::string(kSmall) + "--data tensors:rows.safetensors --init-weights w --eval-only ";
  train_well(common + "--batch-size 7 --save-outputs one.o --metrics m");
  EXPECT_EQ(metrics("m").front()["eval_next_sentence_loss"].is_number(), true);
  EXPECT_EQ(metrics("m").front()["eval_masked_lm_loss"], 0);  // nothing is predicted
  launch_well(3, common + "--batch-size 2 --save-outputs many.o");
  EXPECT_LE(largest_difference("one.o", "many.o"), 1e-5);
  const auto outputs = core::load_safetensors(folder_ / "one.o");
  EXPECT_EQ(outputs.at("last_hidden_state").shape(), (core::Shape{7, 9, 16}));
  EXPECT_EQ(outputs.at("pooler_output").shape(), (core::Shape{7, 16}));
}

// Means over all tokens and all pairs, not means of the ranks' means.
TEST_F(TrainText, evaluation_is_the_same_on_ranks_with_unequal_numbers_of_tokens) {
  write_sequences("rows.safetensors", 7, true, [](std::int64_t row) { return row % 4; });
  const std::string data = std::string(kSmall) + "--data tensors:rows.safetensors --precision fp64 ";
  train_well(data + "--lr 0 --steps 1 --eval-every 0 --save-weights w");
  const std::string common = data + "--init-weights w --eval-only ";
  train_well(common + "--batch-size 7 --metrics one");
  launch_well(3, common + "--batch-size 2 --metrics many");
  for (const char* key : {"eval_loss", "eval_accuracy", "eval_masked_lm_loss", "eval_next_sentence_loss"})
    EXPECT_NEAR(metrics("one").front().at(key).get<double>(), metrics("many").front().at(key).get<double>(), 1e-10)
        << key;
  EXPECT_GT(metrics("one").front()["eval_masked_lm_loss"], 1);
}

TEST_F(TrainText, what_does_not_go_together) {
  write("corpus.txt", corpus());
  write_rows("images.safetensors", 4);
  write_sequences("rows.safetensors", 4, false, [](std::int64_t) { return 1; });
  expect_failure("--model bert --data text:corpus.txt", 2, "--model bert needs --model-config: a config.json");
  expect_failure("--model mlp --model-config small.json", 2, "--model-config is for bert, not for --model mlp");
  expect_failure("--model mlp --data text:corpus.txt", 2, "--model mlp reads images, --data text:corpus.txt is text");
  expect_failure("--model bert-tiny --data fashion-mnist", 2,
                 "--model bert-tiny reads text, --data fashion-mnist are images");
  expect_failure("--model bert-tiny --stem small", 2, "--stem is for ResNets, not for --model bert-tiny");
  expect_failure("--model convnet --seq-length 9", 2,
                 "--seq-length is for --data text, wordnet, and synthetic with a BERT, not for --data fashion-mnist");
  expect_failure("--model convnet --predict-all", 2, "--predict-all is for BERTs, not for --model convnet");
  expect_failure(std::string(kSmall) + "--data tensors:images.safetensors", 1,
                 "--model bert reads text, --data tensors:images.safetensors has samples of shape [1, 28, 28]");
  expect_failure("--model mlp --data tensors:rows.safetensors", 1,
                 "--model mlp reads images, --data tensors:rows.safetensors is text");
  expect_failure(std::string(kSmall) + "--data text:corpus.txt --seq-length 13", 1,
                 "--seq-length 13 is more than the 12 positions of --model bert");
  expect_failure(std::string(kSmall) + "--data text:corpus.txt --seq-length 2", 2,
                 "--seq-length 2 has no room for text, needed 3 or more");
  expect_failure(std::string(kSmall) + "--data text:corpus.txt --seq-length 4 --sentence-pairs", 2,
                 "--seq-length 4 has no room for text in pairs, needed 5 or more");
  expect_failure(std::string(kSmall) + "--data tensors:rows.safetensors --classes 7", 1,
                 "--classes is for samples with a class each, --data tensors:rows.safetensors has tokens to predict");
  expect_failure(std::string(kSmall) + "--data text:corpus.txt --seq-length 12 --out run --save-model run", 2,
                 "--save-model and --out name the same file, run/config.json");
  expect_failure("--model bert --model-config /nope --data text:corpus.txt --seq-length 12", 1, "--model-config /nope");
  write("huge.json", R"({"vocab_size": 16777216, "hidden_size": 65536, "num_hidden_layers": 512,
                         "num_attention_heads": 16})");
  expect_failure("--model bert --model-config huge.json --data synthetic", 1, " parameters take ");
  write("bad.json", R"({"hidden_size": "a lot"})");
  expect_failure("--model bert --model-config bad.json --data text:corpus.txt", 1,
                 "bad.json: \"hidden_size\" is \"a lot\", needed a whole number from 1 to 65536");
  fs::create_directory(folder_ / "empty");
  expect_failure(std::string(kSmall) + "--data text:corpus.txt --seq-length 12 --init-weights empty", 1,
                 "--init-weights empty: has no model.safetensors");
}

TEST_F(TrainText, synthetic_text_is_learned) {
  train_well(std::string(kSmall) +
             "--data synthetic --synthetic-samples 512 --seq-length 12 --sentence-pairs "
             "--batch-size 16 --steps 300 --lr 0.01 --dropout 0 --eval-every 0 --metrics m");
  const auto lines = metrics("m");
  double first = 0, last = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    first += lines[i]["masked_lm_loss"].get<double>() / 20;
    last += lines[lines.size() - 2 - i]["masked_lm_loss"].get<double>() / 20;
  }
  EXPECT_NEAR(first, std::log(61), 0.1);
  EXPECT_LT(last, first - 0.1);
}

}  // namespace
}  // namespace tandem::train
