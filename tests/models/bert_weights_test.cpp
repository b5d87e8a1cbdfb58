#include "tandem/models/bert_weights.h"

#include <gtest/gtest.h>

#include "tandem/models/bert_heads.h"
#include "tests/elements.h"
#include "tests/errors.h"

namespace tandem::models {
namespace {

using core::StateDict;
using core::Tensor;
using testing::error_of;

class BertWeights : public ::testing::Test {
 protected:
  static BertConfig config() {
    BertConfig config = bert_config("tiny");
    config.vocab_size = 30;
    config.hidden_size = 8;
    config.intermediate_size = 16;
    return config;
  }

  core::Generator random_{1};
  BertForPreTraining model_{config(), random_};
  Bert bert_{config(), random_};
};

TEST_F(BertWeights, WithAndWithoutPrefix) {
  const StateDict encoder = bert_.state_dict();
  nn::NameDifference difference = model_.load_matching(with_names_of(model_, encoder));
  EXPECT_TRUE(difference.unexpected.empty());
  EXPECT_EQ(difference.missing.size(), 7u) << difference.str();  // the heads
  EXPECT_EQ(model_.bert().word_embeddings().data().to_vector<float>(),
            bert_.word_embeddings().data().to_vector<float>());

  difference = bert_.load_matching(with_names_of(bert_, model_.state_dict()));
  EXPECT_TRUE(difference.missing.empty()) << difference.str();
  EXPECT_EQ(difference.unexpected.size(), 7u);
}

TEST_F(BertWeights, OldNamesAndConstants) {
  StateDict file;
  for (const auto& [name, tensor] : model_.state_dict()) {
    std::string old = name;
    if (const auto at = old.find("LayerNorm.weight"); at != old.npos) old.replace(at, 16, "LayerNorm.gamma");
    if (const auto at = old.find("LayerNorm.bias"); at != old.npos) old.replace(at, 14, "LayerNorm.beta");
    file.emplace_back(old, tensor);
  }
  file.emplace_back("bert.embeddings.position_ids", Tensor::arange(512));
  const StateDict renamed = with_names_of(model_, file);
  model_.load_state_dict(renamed);  // all there, nothing else
  EXPECT_EQ(renamed.size(), file.size() - 1);
}

TEST_F(BertWeights, SecondNamesMustMeanTheSame) {
  const StateDict own = model_.state_dict();
  const Tensor words = core::find(own, "bert.embeddings.word_embeddings.weight", "test");
  StateDict file = own;
  file.emplace_back("cls.predictions.decoder.weight", words.clone());
  file.emplace_back("cls.predictions.decoder.bias", core::find(own, "cls.predictions.bias", "test"));
  EXPECT_EQ(with_names_of(model_, file).size(), own.size());

  testing::add_to_element(file[file.size() - 2].second, 3, 1.0F);
  EXPECT_EQ(
      error_of([&] { with_names_of(model_, file); }),
      "cls.predictions.decoder.weight has other values than bert.embeddings.word_embeddings.weight: a decoder that "
      "is not tied to the word embeddings");

  StateDict only_second;
  for (const auto& [name, tensor] : own)
    only_second.emplace_back(name == "cls.predictions.bias" ? "cls.predictions.decoder.bias" : name, tensor);
  model_.load_state_dict(with_names_of(model_, only_second));
}

TEST_F(BertWeights, UnknownNamesStayAsTheyAre) {
  StateDict file = model_.state_dict();
  file.emplace_back("classifier.weight", Tensor::zeros({2, 8}));
  const nn::NameDifference difference = model_.load_matching(with_names_of(model_, file));
  EXPECT_EQ(difference.str(), "missing: none; unexpected: classifier.weight");
}

TEST_F(BertWeights, TheSameTwice) {
  StateDict file = model_.state_dict();
  file.emplace_back("embeddings.LayerNorm.bias", Tensor::zeros({8}));
  EXPECT_EQ(error_of([&] { with_names_of(model_, file); }),
            "bert.embeddings.LayerNorm.bias is there twice, under two names");
}

}  // namespace
}  // namespace tandem::models
