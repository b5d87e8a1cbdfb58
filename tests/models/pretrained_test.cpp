#include "tandem/models/pretrained.h"

#include <gtest/gtest.h>

#include "tandem/core/files/file.h"
#include "tandem/models/bert_heads.h"
#include "tandem/models/resnet.h"
#include "tests/data/temporary_folder.h"
#include "tests/elements.h"

namespace tandem::models {
namespace {

using core::StateDict;
using core::Tensor;
using testing::error_of;
using testing::has_bytes_of;

ResNetOptions options_for(std::int64_t classes) { return {.depth = 18, .classes = classes, .stem = Stem::small}; }

BertConfig small_bert() {
  BertConfig config = bert_config("tiny");
  config.vocab_size = 30;
  config.hidden_size = 8;
  config.intermediate_size = 16;
  return config;
}

StateDict copy_of(nn::Module& model) {
  StateDict copy;
  for (const auto& [name, tensor] : model.state_dict()) copy.emplace_back(name, tensor.clone());
  return copy;
}

void expect_same(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(has_bytes_of(a[i].second, b[i].second)) << a[i].first;
  }
}

TEST(LoadWeights, OfAWrappedModelWithAnotherHead) {
  core::Generator random(1);
  ResNet theirs(random, options_for(10)), ours(random, options_for(3));
  StateDict file;
  for (const auto& [name, tensor] : copy_of(theirs))
    if (!name.ends_with("num_batches_tracked")) file.emplace_back("module." + name, tensor);
  const Tensor head = ours.state_dict().back().second.clone();
  const LoadedWeights loaded = load_weights(ours, file);
  EXPECT_EQ(loaded.new_head, "fc is new, for 3 classes; the file's is for 10");
  EXPECT_EQ(loaded.left_out(), loaded.new_head);
  const StateDict now = ours.state_dict(), wanted = theirs.state_dict();
  EXPECT_TRUE(has_bytes_of(now.front().second, wanted.front().second));
  EXPECT_TRUE(has_bytes_of(now.back().second, head)) << "fc.bias";
}

TEST(LoadWeights, WhatDoesNotFitChangesNothing) {
  core::Generator random(1);
  ResNet resnet(random, options_for(3));
  StateDict before = copy_of(resnet), file = before;
  file.erase(file.begin() + 1);
  TANDEM_EXPECT_ERROR(load_weights(resnet, file), "missing: bn1.weight");
  expect_same(resnet.state_dict(), before);

  BertForSequenceClassification bert(small_bert(), random, 3);
  before = copy_of(bert);
  file = copy_of(bert);
  for (auto& [name, tensor] : file) tensor.fill(7);
  file.erase(file.begin());
  TANDEM_EXPECT_ERROR(load_weights(bert, file), "missing: bert.embeddings.word_embeddings.weight");
  expect_same(bert.state_dict(), before);
}

TEST(LoadWeights, OfABertWithOtherHeads) {
  core::Generator random(1);
  BertForPreTraining theirs(small_bert(), random);
  BertForSequenceClassification ours(small_bert(), random, 3);
  const LoadedWeights loaded = load_weights(ours, theirs.state_dict());
  EXPECT_EQ(loaded.new_head, "classifier is new, for 3 classes; the file has none");
  EXPECT_FALSE(loaded.heads.unexpected.empty()) << "cls.";
  EXPECT_TRUE(has_bytes_of(ours.bert().word_embeddings().data(), theirs.bert().word_embeddings().data()));
}

TEST(SavePretrained, ComesBackFromTheFolder) {
  const data::TemporaryFolder folder;
  core::Generator random(1);
  BertForPreTraining model(small_bert(), random);
  save_pretrained(folder.path() / "bert", model, {{"words", "few"}});
  BertForPreTraining again(parse_bert_config(core::read_file(folder.path() / "bert" / kConfigFile), kConfigFile),
                           random);
  EXPECT_EQ(load_weights(again, folder.path() / "bert").left_out(), "");
  expect_same(again.state_dict(), model.state_dict());
  core::Metadata metadata;
  core::load_safetensors(folder.path() / "bert" / kWeightsFile, &metadata);
  EXPECT_EQ(metadata, (core::Metadata{{"format", "pt"}, {"words", "few"}}));
}

TEST(SavePretrained, ErrorsNameTheFile) {
  const data::TemporaryFolder folder;
  core::Generator random(1);
  ResNet resnet(random, options_for(3));
  TANDEM_EXPECT_ERROR(save_pretrained(folder.path() / "resnet", resnet), "the model is no BERT");
  TANDEM_EXPECT_ERROR(load_weights(resnet, folder.path() / "none.safetensors"), "none.safetensors");
  core::save_safetensors(folder.path() / "w.safetensors", {{"fc.weight", Tensor::zeros({1})}});
  TANDEM_EXPECT_ERROR(load_weights(resnet, folder.path() / "w.safetensors"), "w.safetensors: ");
}

}  // namespace
}  // namespace tandem::models
