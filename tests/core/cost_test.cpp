// What the recorder is told of a kernel's call: FLOP and bytes.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tandem/core/ops/attention.h"
#include "tandem/core/ops/batch_norm.h"
#include "tandem/core/ops/binary.h"
#include "tandem/core/ops/conv2d.h"
#include "tandem/core/ops/dispatch.h"
#include "tandem/core/ops/dropout_add_layer_norm.h"
#include "tandem/core/ops/embedding.h"
#include "tandem/core/ops/gather.h"
#include "tandem/core/ops/linear.h"
#include "tandem/core/ops/matmul.h"
#include "tandem/core/recorder.h"

namespace tandem::core {
namespace {

TensorOptions indices_options() { return {.dtype = DType::int64}; }

/// The events that `work` leaves.
std::vector<Event> record(const std::function<void()>& work) {
  recorder::drain();
  recorder::enable(true);
  work();
  recorder::enable(false);
  return recorder::drain();
}

/// That `work` is one call of the kernel, and costs this, beside copies of small vectors for it.
void expect_cost(const std::string& name, double flops, double bytes, const std::function<void()>& work) {
  int calls = 0;
  for (const Event& event : record(work)) {
    if (event.name != name) continue;
    ++calls;
    EXPECT_EQ(event.flops, flops) << name;
    EXPECT_EQ(event.bytes, bytes) << name;
  }
  EXPECT_EQ(calls, 1) << name;
}

TEST(CostTest, LinearsAreProductsOfRowsAndWeight) {
  const Tensor x = Tensor::zeros({2, 3, 4}), weight = Tensor::zeros({5, 4}), bias = Tensor::zeros({5}),
               dy = Tensor::zeros({2, 3, 5});
  Tensor dweight = Tensor::zeros({5, 4}), dbias = Tensor::zeros({5});
  const double product = 2 * 6 * 5 * 4;
  expect_cost("linear", product, 4 * (24 + 20 + 5 + 30), [&] { linear(x, weight, bias); });
  expect_cost("linear", product, 4 * (24 + 20 + 30), [&] { linear(x, weight, {}); });
  expect_cost("linear_backward_input", product, 4 * (30 + 20 + 24), [&] { linear_backward_input(dy, weight); });
  expect_cost("linear_backward_weight", product, 4 * (30 + 24 + 20),
              [&] { linear_backward_weight(dy, x, dweight, false); });
  expect_cost("linear_backward_bias", 0, 4 * (30 + 5), [&] { linear_backward_bias(dy, dbias, false); });
}

TEST(CostTest, ConvolutionsCountTheChannelsOfAGroup) {
  const MemoryFormat last = MemoryFormat::channels_last;
  const Tensor x = Tensor::zeros({2, 4, 5, 5}, {.format = last}), weight = Tensor::zeros({6, 2, 3, 3}),
               dy = Tensor::zeros({2, 6, 3, 3}, {.format = last});
  Tensor dweight = Tensor::zeros({6, 2, 3, 3});
  const Conv2dOptions options{.stride = {2, 2}, .padding = {1, 1}, .groups = 2};
  const double product = 2 * (2 * 6 * 3 * 3) * (2 * 3 * 3), bytes = 4 * (200 + 108 + 108);
  expect_cost("conv2d", product, bytes, [&] { conv2d(x, weight, {}, options); });
  expect_cost("conv2d_backward_input", product, bytes, [&] { conv2d_backward_input(dy, weight, x.shape(), options); });
  expect_cost("conv2d_backward_weight", product, bytes,
              [&] { conv2d_backward_weight(dy, x, dweight, false, options); });
}

TEST(CostTest, RepeatedElementsCountOnce) {
  const Tensor a = Tensor::zeros({2, 3, 4}), b = Tensor::zeros({4, 5});
  expect_cost("matmul", 2 * 30 * 4, 4 * (24 + 20 + 30), [&] { matmul(a, b); });
  const Tensor one = Tensor::zeros({1, 4}).expand({3, 4}), three = Tensor::zeros({3, 4});
  expect_cost("add", 0, 4 * (4 + 12 + 12), [&] { add(one, three); });
}

TEST(CostTest, AttentionCountsItsProductsAndTheTensorsInStructs) {
  const Tensor q = Tensor::zeros({2, 4, 6}), k = Tensor::zeros({2, 3, 6}), dy = Tensor::zeros({2, 4, 6});
  const AttentionOptions options{.heads = 2};
  const double product = 2 * (2 * 4 * 6) * 3, log_sum_exp = 2 * 2 * 4;
  expect_cost("attention", 2 * product, 4 * (48 + 36 + 36 + 48 + log_sum_exp), [&] { attention(q, k, k, options); });
  const AttentionForward forward = attention(q, k, k, options);
  expect_cost("attention_backward", 5 * product, 4 * (48 + 48 + 36 + 36 + 48 + log_sum_exp + 48 + 36 + 36),
              [&] { attention_backward(dy, q, k, k, forward, options); });
}

TEST(CostTest, FusedNormsCountTheTensorsInStructs) {
  const Tensor x = Tensor::zeros({4, 6}), vector = Tensor::zeros({6});
  const int mask = 24;
  expect_cost("dropout_add_layer_norm", 0, 4 * (24 + 24 + 6 + 6 + 24 + 24) + mask,
              [&] { dropout_add_layer_norm(x, x, vector, vector, 1e-5, 0.5, RandomContext{}.stream(0)); });
  const std::vector<Event> events = record([&] { batch_norm_training(x, {}, {}, 1e-5); });
  ASSERT_EQ(events.size(), 3u) << "statistics, their root, and the pass that applies them";
  EXPECT_EQ(events[0].bytes, 4 * (24 + 6 + 6));
  EXPECT_EQ(events[2].bytes, 4 * (24 + 24));
}

TEST(CostTest, OfATableOnlyTheRowsThatAreRead) {
  Tensor table = Tensor::zeros({1000, 4});
  const Tensor indices = Tensor::zeros({3}, indices_options()), rows = Tensor::zeros({3, 4});
  expect_cost("embedding", 0, 2 * 3 * 4 * 4 + 3 * 8, [&] { embedding(table, indices); });
  expect_cost("embedding_backward", 0, 3 * 3 * 4 * 4 + 3 * 8,
              [&] { embedding_backward(rows, indices, table, /*accumulate=*/true, /*padding_idx=*/-1); });
  const Tensor index = Tensor::zeros({1, 4}, indices_options());
  expect_cost("gather", 0, 2 * 4 * 4 + 4 * 8, [&] { gather(table, 0, index); });
  expect_cost("scatter_add", 0, 3 * 4 * 4 + 4 * 8, [&] { scatter_add(table, 0, index, rows); });
}

TEST(CostTest, BytesAreThoseOfTheDtype) {
  const Tensor x = Tensor::zeros({5});
  expect_cost("copy", 0, 5 * 4 + 5 * 2, [&] { x.to(DType::bfloat16); });
  EXPECT_EQ(moved_bytes(Tensor()), 0);
  EXPECT_EQ(moved_bytes(Tensor::zeros({0, 3})), 0);
  EXPECT_EQ(moved_bytes(Tensor::scalar(1, DType::float64)), 8);
  EXPECT_EQ(moved_bytes(1.0), 0) << "no tensor";
}

TEST(CostTest, ACopyThatAKernelNeedsIsAnEventOfItsOwn) {
  const Tensor table = Tensor::zeros({10, 2}), indices = Tensor::zeros({4, 3}, indices_options()).transpose(0, 1);
  expect_cost("embedding", 0, 2 * 12 * 2 * 4 + 12 * 8, [&] { embedding(table, indices); });
  expect_cost("copy", 0, 2 * 12 * 8, [&] { embedding(table, indices); });
}

TEST(CostTest, AScopeAddsUpWhatItIsTold) {
  const std::vector<Event> events = record([] {
    RecordScope outer("outer", "phase");
    EXPECT_TRUE(outer.is_recording());
    outer.add({.flops = 1, .bytes = 2});
    RecordScope inner("inner");
    inner.add({.bytes = 8});
    outer.add({.flops = 10, .bytes = 20});
  });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].flops, 11);
  EXPECT_EQ(events[0].bytes, 22);
  EXPECT_EQ(events[1].flops, 0);
  EXPECT_EQ(events[1].bytes, 8);
  EXPECT_FALSE(RecordScope("off").is_recording());
}

}  // namespace
}  // namespace tandem::core
