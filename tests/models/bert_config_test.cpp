#include "tandem/models/bert_config.h"

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace tandem::models {
namespace {

using testing::error_of;
using testing::expect_contains;

BertConfig parse(const std::string& text) { return parse_bert_config(text, "c.json"); }
std::string error(const std::string& text) {
  return error_of([&] { parse(text); });
}

TEST(BertConfig, NamedOnes) {
  EXPECT_EQ(bert_config("tiny").num_hidden_layers, 2);
  EXPECT_EQ(bert_config("tiny").num_attention_heads, 2);
  EXPECT_EQ(bert_config("mini").hidden_size, 256);
  EXPECT_EQ(bert_config("base").intermediate_size, 3072);
  EXPECT_EQ(bert_config("large").num_attention_heads, 16);
  EXPECT_EQ(error_of([] { bert_config("huge"); }), "bert: 'huge' is none of tiny, mini, base, large");
}

TEST(BertConfig, WhatIsNotSaidIsTheDefault) {
  const BertConfig config = parse(R"({"hidden_size": 384, "num_hidden_layers": 6, "classifier_dropout": null})");
  EXPECT_EQ(config.hidden_size, 384);
  EXPECT_EQ(config.num_hidden_layers, 6);
  EXPECT_EQ(config.vocab_size, 30522);
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  EXPECT_FALSE(config.classifier_dropout);
}

TEST(BertConfig, WrittenAndReadIsTheSame) {
  BertConfig config = bert_config("mini");
  config.vocab_size = 8192;
  config.hidden_act = BertActivation::gelu_tanh;
  config.classifier_dropout = 0.25;
  config.layer_norm_eps = 1e-7;
  config.pad_token_id = 3;
  const std::string text = to_json(config, "BertForPreTraining");
  expect_contains(text, "\"architectures\": [\n    \"BertForPreTraining\"\n  ]");
  EXPECT_EQ(to_json(parse(text), "BertForPreTraining"), text);
}

TEST(BertConfig, LabelsOfAClassifier) {
  EXPECT_EQ(parse("{}").num_labels, 0);
  EXPECT_EQ(parse(R"({"num_labels": 5})").num_labels, 5);
  EXPECT_EQ(parse(R"({"id2label": {"0": "bad", "1": "good", "2": "best"}})").num_labels, 3);
  const std::string names = R"({"id2label": {"0": "bad", "1": "good", "2": "best"}})";
  expect_contains(to_json(parse(names), "BertForSequenceClassification"), "\"best\": 2");
  EXPECT_EQ(error(R"({"num_labels": 2, "id2label": {"0": "a", "1": "b", "2": "c"}})"),
            "c.json: \"num_labels\" is 2, but \"id2label\" has 3");
  EXPECT_EQ(error(R"({"id2label": {"0": "a", "2": "b"}})"),
            "c.json: \"id2label\" has no name for \"1\", needed are names for \"0\" to \"1\"");
  BertConfig config = bert_config("tiny");
  config.num_labels = 3;
  const std::string text = to_json(config, "BertForSequenceClassification");
  expect_contains(text, "\"2\": \"LABEL_2\"");
  EXPECT_EQ(parse(text).num_labels, 3);
  EXPECT_EQ(error(R"({"id2label": ["a", "b"]})"),
            "c.json: \"id2label\" is [\"a\",\"b\"], needed an object with a name for each label");
}

TEST(BertConfig, ParameterCount) {
  EXPECT_EQ(parameter_count(bert_config("tiny")), 4416698);
  EXPECT_EQ(parameter_count(bert_config("base")), 109514298);
  EXPECT_EQ(parameter_count(bert_config("large")), 335174458);
}

TEST(BertConfig, WrongFiles) {
  EXPECT_EQ(error("{\"hidden_size\": "), "c.json, byte 17: not JSON");
  EXPECT_EQ(error("[]"), "c.json: holds no JSON object with a model's settings");
  EXPECT_EQ(error(R"({"hidden_size": "768"})"),
            "c.json: \"hidden_size\" is \"768\", needed a whole number from 1 to 65536");
  EXPECT_EQ(error(R"({"hidden_size": 768.5})"),
            "c.json: \"hidden_size\" is 768.5, needed a whole number from 1 to 65536");
  EXPECT_EQ(error(R"({"num_hidden_layers": -1})"),
            "c.json: \"num_hidden_layers\" is -1, needed a whole number from 1 to 512");
  EXPECT_EQ(error(R"({"vocab_size": 18446744073709551615})"),
            "c.json: \"vocab_size\" is 18446744073709551615, needed a whole number from 1 to 16777216");
  EXPECT_EQ(error(R"({"vocab_size": 1e300})"),
            "c.json: \"vocab_size\" is 1e+300, needed a whole number from 1 to 16777216");
  EXPECT_EQ(error(R"({"hidden_dropout_prob": true})"),
            "c.json: \"hidden_dropout_prob\" is true, needed a number from 0 to below 1");
  EXPECT_EQ(error(R"({"hidden_dropout_prob": 1})"),
            "c.json: \"hidden_dropout_prob\" is 1, needed a number from 0 to below 1");
  EXPECT_EQ(error(R"({"pad_token_id": 9, "vocab_size": 9})"),
            "c.json: \"pad_token_id\" is 9, needed a whole number from 0 to 8");
  EXPECT_EQ(error(R"({"hidden_size": 100, "num_attention_heads": 12})"),
            "c.json: \"hidden_size\" 100 is no multiple of \"num_attention_heads\" 12");
  EXPECT_EQ(error(R"({"hidden_act": "silu"})"),
            "c.json: \"hidden_act\" is \"silu\", supported are gelu, gelu_new, gelu_pytorch_tanh, relu");
  EXPECT_EQ(error(R"({"model_type": "roberta"})"), "c.json: \"model_type\" is \"roberta\", supported is \"bert\"");
  EXPECT_EQ(error(R"({"is_decoder": true})"), "c.json: \"is_decoder\" is true, supported is false");
  EXPECT_EQ(error(R"({"position_embedding_type": "relative_key"})"),
            "c.json: \"position_embedding_type\" is \"relative_key\", supported is \"absolute\"");
  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  EXPECT_EQ(error("{\"hidden_size\": " + deep + "}"), "c.json: nested more than 8 deep");
  expect_contains(error("{\"hidden_act\": \"" + std::string(1000, 'x') + "\"}"), "xxx..., supported are");
  expect_contains(error(R"({"hidden_size": {"a": [1, 2]}})"), "is {\"a\":[1,2]}, needed a whole number");
}

}  // namespace
}  // namespace tandem::models
