#include "tandem/data/text/text_tensors.h"

#include "tandem/core/files/safetensors.h"
#include "tests/data/text_samples.h"

namespace tandem::data {
namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using Row = std::vector<std::int64_t>;

Tensor integers(const Row& values, const Shape& shape) { return Tensor::from(values, shape); }

TEST(TextTensors, RowsInFileOrder) {
  const TemporaryFolder folder;
  const Tensor ids = integers({2, 5, 3, 2, 9, 3}, {2, 3}), labels = integers({-100, 7, -100, -100, 11, -100}, {2, 3});
  core::save_safetensors(folder / "f", {{"input_ids", ids}, {"labels", labels}, {"other", Tensor::zeros({4})}});
  const TextTensors plain(folder / "f");
  EXPECT_EQ(plain.size(), 2);
  EXPECT_EQ(plain.seq_length(), 3);
  EXPECT_EQ(plain.vocabulary_size(), 12);
  EXPECT_EQ(plain.token_types(), 1);
  EXPECT_FALSE(plain.pairs());
  const Batch batch = plain.read(Row{1, 0, 1});
  EXPECT_EQ(batch.input.to_vector<std::int64_t>(), (Row{2, 9, 3, 2, 5, 3, 2, 9, 3}));
  EXPECT_EQ(row_of(batch.target, 0), (Row{-100, 11, -100}));
  EXPECT_EQ(batch.attention_mask.to_vector<std::int64_t>(), Row(9, 1));
  EXPECT_EQ(batch.token_type_ids.to_vector<std::int64_t>(), Row(9, 0));
  EXPECT_FALSE(batch.next_sentence.defined());
  EXPECT_EQ(plain.read({}).input.shape(), (Shape{0, 3}));

  core::save_safetensors(folder / "f", {{"input_ids", ids},
                                        {"labels", labels},
                                        {"attention_mask", integers({1, 1, 0, 1, 1, 1}, {2, 3})},
                                        {"token_type_ids", integers({0, 1, 1, 0, 0, 1}, {2, 3})},
                                        {"next_sentence_label", integers({1, 0}, {2})}});
  const TextTensors full(folder / "f");
  EXPECT_TRUE(full.pairs());
  EXPECT_EQ(full.token_types(), 2);
  const Batch last = full.read(Row{1, 0});
  EXPECT_EQ(row_of(last.attention_mask, 1), (Row{1, 1, 0}));
  EXPECT_EQ(row_of(last.token_type_ids, 0), (Row{0, 0, 1}));
  EXPECT_EQ(last.next_sentence.to_vector<std::int64_t>(), (Row{0, 1}));
}

TEST(TextTensors, WrongFiles) {
  const TemporaryFolder folder;
  const Tensor ids = integers({2, 5, 3, 2, 9, 3}, {2, 3});
  const auto error = [&](const core::StateDict& tensors) {
    core::save_safetensors(folder / "f", tensors);
    const std::string message = error_of([&] { TextTensors(folder / "f"); });
    expect_contains(message, (folder / "f").string());
    return message;
  };
  const auto with = [&](const char* name, const Tensor& tensor) {
    return error({{"input_ids", ids}, {"labels", ids}, {name, tensor}});
  };
  expect_contains(error({{"input_ids", ids}}), "has no tensor \"labels\", needed are \"input_ids\" and \"labels\"");
  expect_contains(error({{"labels", ids}}), "has no tensor \"input_ids\"");
  expect_contains(error({{"input_ids", ids.to(DType::float32)}, {"labels", ids}}),
                  "\"input_ids\" is float32, needed int64");
  expect_contains(error({{"input_ids", ids.reshape({6})}, {"labels", ids}}), "\"input_ids\" is [6], needed [N, S]");
  expect_contains(error({{"input_ids", ids}, {"labels", ids.reshape({3, 2})}}),
                  "\"labels\" [3, 2] does not fit \"input_ids\" [2, 3]");
  expect_contains(error({{"input_ids", integers({1, -100, 3}, {1, 3})}, {"labels", integers({1, 2, 3}, {1, 3})}}),
                  "value 1 of \"input_ids\" is -100, needed 0 to 2147483646");
  expect_contains(error({{"input_ids", ids}, {"labels", integers({1, 2, 3, -1, 2, 3}, {2, 3})}}),
                  "value 3 of \"labels\" is -1, needed 0 to 2147483646, or -100");
  expect_contains(with("attention_mask", ids), "value 0 of \"attention_mask\" is 2, needed 0 to 1");
  expect_contains(with("token_type_ids", Tensor::zeros({2, 3})), "\"token_type_ids\" is float32, needed int64");
  expect_contains(with("next_sentence_label", integers({0, 0, 0}, {3})),
                  "\"next_sentence_label\" [3] does not fit \"input_ids\" [2, 3]");
  expect_contains(with("next_sentence_label", integers({0, 2}, {2})), "value 1 of \"next_sentence_label\" is 2");
  expect_contains(with("next_sentence_label", ids), "\"next_sentence_label\" is [2, 3], needed [N]");
}

TEST(TextTensors, KindOfAFile) {
  const TemporaryFolder folder;
  const Tensor ids = integers({1, 2}, {1, 2});
  core::save_safetensors(folder / "text", {{"input_ids", ids}, {"labels", ids}});
  core::save_safetensors(folder / "images", {{"input", Tensor::zeros({1, 2})}, {"target", integers({1}, {1})}});
  core::save_safetensors(folder / "weights", {{"weight", ids}});
  EXPECT_EQ(tensors_kind(folder / "text"), TensorsKind::text);
  EXPECT_EQ(tensors_kind(folder / "images"), TensorsKind::labelled);
  EXPECT_EQ(core::safetensors_names(folder / "images"), (std::vector<std::string>{"target", "input"}));
  TANDEM_EXPECT_ERROR(tensors_kind(folder / "weights"),
                      "weights: has neither \"input\" and \"target\" nor \"input_ids\" and \"labels\"");
  TANDEM_EXPECT_ERROR(tensors_kind(folder.put("short", "abc")), "short, byte 3: ");
}

}  // namespace
}  // namespace tandem::data
