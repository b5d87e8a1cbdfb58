// BERT against Hugging Face's, in float64: outputs, losses, gradients; and its counts of parameters.
#include <gtest/gtest.h>

#include "tandem/autograd/grad_mode.h"
#include "tandem/models/bert_heads.h"
#include "tandem/nn/loss.h"
#include "tests/errors.h"
#include "tests/golden/golden_file.h"

namespace tandem::models {
namespace {

using core::DType;
using core::Generator;
using core::StateDict;
using testing::error_of;
using testing::expect_contains;
using testing::expect_near;
using testing::GoldenFile;

constexpr double kTolerance = 1e-10;

BertConfig small() {
  BertConfig config;
  config.vocab_size = 61;
  config.hidden_size = 16;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 40;
  config.max_position_embeddings = 12;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0;
  return config;
}

BertInput golden_input(GoldenFile& file) {
  return {.input_ids = file["input_ids"],
          .attention_mask = file["attention_mask"],
          .token_type_ids = file["token_type_ids"]};
}

void load_golden(GoldenFile& file, const std::string& prefix, nn::Module& model) {
  model.to(DType::float64);
  StateDict state;
  for (const auto& [name, variable] : model.named_parameters())
    state.emplace_back(name, file[prefix + ".state." + name]);
  model.load_state_dict(state);
}

void expect_golden_gradients(GoldenFile& file, const std::string& prefix, const nn::Module& model) {
  for (const auto& [name, variable] : model.named_parameters()) {
    ASSERT_TRUE(variable.grad().defined()) << name;
    // The key's bias has no gradient but rounding: it adds the same to all scores of a row.
    expect_near(variable.grad(), file[prefix + ".gradient." + name], kTolerance, name, 1e-3);
  }
}

/// Numbers of the places that `labels` says are predicted, and what is there.
std::pair<Tensor, Tensor> predicted(const Tensor& labels) {
  std::vector<std::int64_t> positions, targets;
  const auto all = labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == -100) continue;
    positions.push_back(static_cast<std::int64_t>(i));
    targets.push_back(all[i]);
  }
  return {Tensor::from(positions), Tensor::from(targets)};
}

TEST(BertLikeHuggingFace, PreTraining) {
  GoldenFile file("bert.safetensors");
  Generator random(1);
  BertForPreTraining model(small(), random);
  load_golden(file, "pre_training", model);
  const auto [tokens, next_sentence, hidden] = model.forward(golden_input(file));
  expect_near(hidden.data(), file["pre_training.hidden"], kTolerance, "hidden");
  const Tensor logits = file["pre_training.token_logits"];
  expect_near(tokens.data(), logits.reshape({-1, logits.size(2)}), kTolerance, "token logits");
  expect_near(next_sentence.data(), file["pre_training.next_sentence_logits"], kTolerance, "next sentence");
  const Variable loss =
      nn::cross_entropy(tokens, file["labels"].reshape({-1})) + nn::cross_entropy(next_sentence, file["next_sentence"]);
  expect_near(loss.data(), file["pre_training.loss"], kTolerance, "loss");
  loss.backward();
  expect_golden_gradients(file, "pre_training", model);
  file.expect_all_read("pre_training.");
}

TEST(BertLikeHuggingFace, LogitsAtMaskedPositionsAloneGiveTheSameLossAndGradients) {
  GoldenFile file("bert.safetensors");
  Generator random(1);
  BertForPreTraining model(small(), random);
  load_golden(file, "pre_training", model);
  const auto [positions, targets] = predicted(file["labels"]);
  const auto [tokens, next_sentence, hidden] = model.forward(golden_input(file), positions);
  EXPECT_EQ(tokens.shape(), (core::Shape{5, 61}));
  const Variable loss = nn::cross_entropy(tokens, targets) + nn::cross_entropy(next_sentence, file["next_sentence"]);
  expect_near(loss.data(), file["pre_training.loss"], kTolerance, "loss");
  loss.backward();
  expect_golden_gradients(file, "pre_training", model);
}

TEST(BertLikeHuggingFace, MaskedLmWithTheTanhFormOfGelu) {
  GoldenFile file("bert.safetensors");
  Generator random(1);
  BertConfig config = small();
  config.hidden_act = BertActivation::gelu_tanh;
  BertForPreTraining model(config, random, /*next_sentence=*/false);
  EXPECT_FALSE(model.bert().has_pooler());
  load_golden(file, "masked_lm", model);
  const auto [tokens, next_sentence, hidden] = model.forward(golden_input(file));
  EXPECT_FALSE(next_sentence.defined());
  expect_near(hidden.data(), file["masked_lm.hidden"], kTolerance, "hidden");
  const Tensor logits = file["masked_lm.token_logits"];
  expect_near(tokens.data(), logits.reshape({-1, logits.size(2)}), kTolerance, "token logits");
  const Variable loss = nn::cross_entropy(tokens, file["labels"].reshape({-1}));
  expect_near(loss.data(), file["masked_lm.loss"], kTolerance, "loss");
  loss.backward();
  expect_golden_gradients(file, "masked_lm", model);
  file.expect_all_read("masked_lm.");
}

TEST(BertLikeHuggingFace, SequenceClassification) {
  GoldenFile file("bert.safetensors");
  Generator random(1);
  BertForSequenceClassification model(small(), random, 3);
  load_golden(file, "classification", model);
  expect_near(model.bert().forward(golden_input(file)).data(), file["classification.hidden"], kTolerance, "hidden");
  const Variable logits = model.forward(golden_input(file));
  expect_near(logits.data(), file["classification.logits"], kTolerance, "logits");
  const Variable loss = nn::cross_entropy(logits, file["classification.labels"]);
  expect_near(loss.data(), file["classification.loss"], kTolerance, "loss");
  loss.backward();
  expect_golden_gradients(file, "classification", model);
  file.expect_all_read("classification.");
}

// ---- The model alone

std::int64_t count(nn::Module& model) {
  std::int64_t parameters = 0;
  for (const Variable& parameter : model.parameters()) parameters += parameter.data().numel();
  return parameters;
}

TEST(Bert, CountsOfParameters) {
  const auto expect_counts = [](const char* name, std::int64_t encoder, std::int64_t masked_lm,
                                std::int64_t pre_training) {
    Generator random(0);
    const BertConfig config = bert_config(name);
    Bert bert(config, random);
    BertForPreTraining without(config, random, false), with(config, random);
    EXPECT_EQ(count(bert), encoder) << name;
    EXPECT_EQ(count(without), masked_lm) << name;
    EXPECT_EQ(count(with), pre_training) << name;
  };
  expect_counts("tiny", 4385920, 4416698, 4433468);
  expect_counts("mini", 11170560, 11201594, 11267900);
}

TEST(Bert, BeginsUnableToTellTokensApart) {
  Generator random(0);
  BertForPreTraining model(bert_config("tiny"), random);
  model.eval();
  const autograd::NoGradGuard no_grad;
  std::vector<std::int64_t> ids(64), labels(64);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = labels[i] = static_cast<std::int64_t>(i * 7919 % 30522);
  const auto output = model.forward({.input_ids = Tensor::from(ids, {2, 32})});
  EXPECT_NEAR(nn::cross_entropy(output.token_logits, Tensor::from(labels)).data().item(), 10.326, 0.2);
  EXPECT_NEAR(nn::cross_entropy(output.next_sentence_logits, Tensor::from<std::int64_t>({0, 1})).data().item(), 0.693,
              0.014);
}

TEST(Bert, InitialWeights) {
  Generator random(0);
  Bert bert(bert_config("tiny"), random);
  for (const auto& [name, variable] : bert.named_parameters()) {
    const auto values = variable.data().to_vector<double>();
    double sum = 0, squares = 0;
    for (const double value : values) {
      sum += value;
      squares += value * value;
    }
    const auto n = static_cast<double>(values.size());
    const bool is_norm = name.find("LayerNorm.weight") != name.npos;
    if (variable.data().rank() == 1) {
      EXPECT_EQ(sum, is_norm ? n : 0) << name;
    } else {
      EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.002) << name;
    }
  }
  for (const double value : bert.word_embeddings().data().select(0, 0).to_vector<double>()) EXPECT_EQ(value, 0);
}

// Of each kind alone: drawn by the random context in training, and nothing in evaluation.
TEST(Bert, DropsInTrainingOnly) {
  for (const auto rate : {&BertConfig::hidden_dropout_prob, &BertConfig::attention_probs_dropout_prob}) {
    BertConfig config = small();
    config.*rate = 0.5;
    Generator random(1);
    Bert bert(config, random);
    const Tensor ids = Tensor::full({2, 6}, 7, {.dtype = DType::int64});
    const auto run = [&](std::uint32_t step) {
      bert.set_random_context({.seed = 1, .step = step});
      return bert.forward({.input_ids = ids}).data().to_vector<float>();
    };
    const auto first = run(0);
    EXPECT_EQ(run(0), first);
    EXPECT_NE(run(1), first);
    bert.eval();
    EXPECT_EQ(run(0), run(1));
    EXPECT_NE(run(0), first);
  }
}

TEST(Bert, AClassifierDropsThePooledOutput) {
  BertConfig config = small();
  config.classifier_dropout = 0.5;
  Generator random(1);
  BertForSequenceClassification model(config, random, 3);
  const Tensor ids = Tensor::full({2, 6}, 7, {.dtype = DType::int64});
  const auto run = [&](std::uint32_t step) {
    model.set_random_context({.seed = 1, .step = step});
    return model.forward({.input_ids = ids}).data().to_vector<float>();
  };
  const auto first = run(0);
  EXPECT_NE(run(1), first);
  model.eval();
  EXPECT_EQ(run(0), run(1));
}

TEST(Bert, NoRowsAndNoPositions) {
  Generator random(0);
  BertForPreTraining model(small(), random);
  const Tensor none = Tensor::zeros({0}, {.dtype = DType::int64});
  for (const std::int64_t rows : {0, 2}) {
    model.zero_grad();
    const Tensor ids = Tensor::full({rows, 5}, 3, {.dtype = DType::int64});
    const auto output = model.forward({.input_ids = ids}, none);
    EXPECT_EQ(output.token_logits.shape(), (core::Shape{0, 61}));
    nn::CrossEntropyOptions sum;
    sum.reduction = nn::Reduction::sum;
    const Tensor next = Tensor::zeros({rows}, {.dtype = DType::int64});
    (nn::cross_entropy(output.token_logits, none, sum) + nn::cross_entropy(output.next_sentence_logits, next, sum))
        .backward();
    for (const auto& [name, variable] : model.named_parameters()) EXPECT_TRUE(variable.grad().defined()) << name;
  }
}

TEST(Bert, WrongInput) {
  Generator random(0);
  Bert bert(small(), random, /*with_pooler=*/false);
  const auto ids = [](const core::Shape& shape, double value = 1, DType dtype = DType::int64) {
    return Tensor::full(shape, value, {.dtype = dtype});
  };
  EXPECT_EQ(error_of([&] { bert.forward({.input_ids = ids({4})}); }),
            "bert: input_ids are int64 [4], needed int64 [N, S]");
  EXPECT_EQ(error_of([&] {
              bert.forward({.input_ids = ids({1, 4}, 1, DType::float32)});
            }),
            "bert: input_ids are float32 [1, 4], needed int64 [N, S]");
  EXPECT_EQ(error_of([&] {
              bert.forward({.input_ids = ids({1, 13})});
            }),
            "bert: a sequence of 13 tokens, there are embeddings for 12 positions");
  EXPECT_EQ(error_of([&] {
              bert.forward({.input_ids = ids({2, 4}), .attention_mask = ids({2, 3})});
            }),
            "bert: attention_mask is int64 [2, 3], needed int64 [2, 4] as input_ids");
  EXPECT_EQ(error_of([&] {
              bert.forward({.input_ids = ids({2, 4}), .token_type_ids = ids({4})});
            }),
            "bert: token_type_ids is int64 [4], needed int64 [2, 4] as input_ids");
  expect_contains(error_of([&] { bert.forward({.input_ids = ids({2, 4}, 61)}); }), "61");
  const Variable hidden = bert.forward({.input_ids = ids({2, 4})});
  EXPECT_EQ(error_of([&] { bert.pool(hidden); }), "bert: this model was made without pooler");
}

}  // namespace
}  // namespace tandem::models
