// Models that compute activations again in backward: the same numbers as without, from less memory.
#include <gtest/gtest.h>

#include <cstring>

#include "tandem/core/allocator.h"
#include "tandem/models/bert_heads.h"
#include "tandem/models/model_zoo.h"
#include "tandem/nn/loss.h"
#include "tests/elements.h"
#include "tests/models/golden_model.h"

namespace tandem::models {
namespace {

using core::CachingAllocator;
using core::Tensor;
using testing::formula;

struct Step {
  std::size_t saved = 0;       ///< bytes that forward left
  std::size_t peak = 0;        ///< most that forward and backward held
  std::vector<Tensor> values;  ///< loss, gradients, buffers
};

/// Forward and backward. `loss()` is made from what `model` computes.
template <class Loss>
Step step(nn::Module& model, Loss&& loss) {
  Step step;
  const auto statistics = [] { return core::allocator(core::default_device()).statistics(); };
  model.zero_grad();
  const std::size_t before = statistics().in_use;
  core::allocator(core::default_device()).reset_peak();
  const Variable root = loss();
  step.saved = statistics().in_use - before;
  root.backward();
  step.peak = statistics().peak - before;
  step.values.push_back(root.data());
  for (const Variable& parameter : model.parameters()) step.values.push_back(parameter.grad().clone());
  for (const nn::NamedBuffer& buffer : model.named_buffers()) step.values.push_back(buffer.tensor->clone());
  return step;
}

/// Bytes of a float32 activation.
std::size_t activation(std::int64_t elements) {
  return CachingAllocator::rounded_size(static_cast<std::size_t>(elements) * sizeof(float));
}

void expect_same_from_less(const Step& lean, const Step& usual, std::size_t less) {
  ASSERT_EQ(lean.values.size(), usual.values.size());
  for (std::size_t i = 0; i < lean.values.size(); ++i) {
    const Tensor &a = lean.values[i], &b = usual.values[i];
    ASSERT_TRUE(a.is_contiguous() && b.is_contiguous());
    EXPECT_TRUE(testing::has_bytes_of(a, b)) << "value " << i << " " << a.shape().str();
  }
  EXPECT_EQ(usual.saved - lean.saved, less);
  EXPECT_LT(lean.peak, usual.peak);
}

/// Of a training step on four images; the model is run twice, for what is made once.
Step resnet_step(const std::string& name, std::int64_t size, Stem stem, bool recompute, bool training = true) {
  const auto model = make_model(name, {.seed = 3, .classes = 10, .stem = stem, .recompute = recompute});
  model->train(training);
  const Variable images(formula("images", {4, 3, size, size}).to(core::DType::float32));
  const Tensor target = Tensor::from(std::vector<std::int64_t>{1, 7, 0, 7});
  const auto loss = [&] { return nn::cross_entropy(model->forward(images), target); };
  step(*model, loss);
  return step(*model, loss);
}

// The stem's, where no pool follows, and one of each block.
TEST(Recompute, ResNet18) {
  const std::size_t first = activation(4 * 64 * 16 * 16), second = activation(4 * 128 * 8 * 8),
                    third = activation(4 * 256 * 4 * 4), fourth = activation(4 * 512 * 2 * 2);
  for (const bool training : {true, false}) {
    SCOPED_TRACE(training);  // in evaluation norms are frozen, as when a network is fine-tuned
    expect_same_from_less(resnet_step("resnet18", 16, Stem::small, true, training),
                          resnet_step("resnet18", 16, Stem::small, false, training),
                          first + 2 * (first + second + third + fourth));
  }
}

// Two of each bottleneck; where a layer begins, the first of them comes before the stride. The stem's goes into a pool,
// which keeps nothing of it.
TEST(Recompute, ResNet50) {
  std::size_t less = 0;
  std::int64_t size = 8;
  constexpr int kBlocks[] = {3, 4, 6, 3};
  for (int layer = 0; layer < 4; ++layer) {
    const std::int64_t width = 64 << layer, before = size;
    if (layer > 0) size /= 2;
    less += activation(4 * width * before * before) + activation(4 * width * size * size);
    less += static_cast<std::size_t>(2 * (kBlocks[layer] - 1)) * activation(4 * width * size * size);
  }
  expect_same_from_less(resnet_step("resnet50", 32, Stem::imagenet, true),
                        resnet_step("resnet50", 32, Stem::imagenet, false), less);
}

TEST(Recompute, BertWithDropout) {
  constexpr std::int64_t kRows = 4, kLength = 32;
  const BertConfig config = bert_config("tiny");
  core::Generator random(3);
  BertForPreTraining model(config, random);
  std::vector<std::int64_t> ids, targets, positions;
  for (std::int64_t i = 0; i < kRows * kLength; ++i) ids.push_back(i * 37 % 1000);
  for (std::int64_t i = 0; i < kRows * kLength; i += 7) {
    positions.push_back(i);
    targets.push_back(i * 11 % 1000);
  }
  const auto run = [&](bool recompute) {
    model.bert().set_recompute(recompute);
    model.set_random_context({.seed = 1, .step = 5});
    return step(model, [&] {
      const auto output = model.forward({.input_ids = Tensor::from(ids, {kRows, kLength})}, Tensor::from(positions));
      return nn::cross_entropy(output.token_logits, Tensor::from(targets)) +
             nn::cross_entropy(output.next_sentence_logits, Tensor::from(std::vector<std::int64_t>{0, 1, 1, 0}));
    });
  };
  run(true);
  const Step usual = run(false), lean = run(true);
  const auto layers = static_cast<std::size_t>(config.num_hidden_layers);
  expect_same_from_less(lean, usual, layers * activation(kRows * kLength * config.intermediate_size));
}

}  // namespace
}  // namespace tandem::models
