#include <fmt/core.h>

#include <algorithm>

#include "tandem/core/ops/random_fill.h"
#include "tandem/models/bert_heads.h"
#include "tandem/nn/loss.h"
#include "tools/bench/workload.h"

namespace tandem::bench {
namespace {

using core::Tensor;
using nn::Variable;

// Any token of the vocabulary, [N S].
Tensor random_tokens(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed) {
  Tensor uniform = Tensor::empty({count});
  core::fill_uniform(uniform, 0, 1, core::RandomContext{.seed = seed}.stream(0));
  std::vector<std::int64_t> tokens;
  for (const float u : uniform.to_vector<float>())
    tokens.push_back(std::min(vocabulary - 1, static_cast<std::int64_t>(u * static_cast<float>(vocabulary))));
  return Tensor::from(tokens);
}

// 15 of 100 positions, spread evenly; one at least.
Tensor masked_positions(std::int64_t count) {
  const std::int64_t masked = std::max<std::int64_t>(1, count * 15 / 100);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < masked; ++i) positions.push_back(i * count / masked);
  return Tensor::from(positions);
}

class TextWorkload final : public Workload {
 public:
  explicit TextWorkload(const WorkloadSettings& settings)
      : config_(models::bert_config(settings.model.substr(sizeof("bert-") - 1))),
        random_(/*seed=*/0),
        model_(config_, random_, /*next_sentence=*/false) {
    model_.bert().set_recompute(settings.recompute);
    const std::int64_t batch = settings.batch_size, length = settings.seq_length, count = batch * length;
    input_.input_ids = random_tokens(count, config_.vocab_size, 1).reshape({batch, length});
    if (settings.activations != core::DType::float32) input_.dtype = settings.activations;
    if (settings.predict == Predict::masked) positions_ = masked_positions(count);
    labels_ = random_tokens(positions_.defined() ? positions_.numel() : count, config_.vocab_size, 2);
  }

  nn::Module& module() override { return model_; }
  Variable loss() override { return nn::cross_entropy(model_.forward(input_, positions_).token_logits, labels_); }
  std::string describe_batch() const override {
    return fmt::format("{} x {} tokens, {} predicted", input_.input_ids.size(0), input_.input_ids.size(1),
                       labels_.numel());
  }

 private:
  models::BertConfig config_;
  core::Generator random_;
  models::BertForPreTraining model_;
  models::BertInput input_;
  Tensor positions_, labels_;
};

}  // namespace

std::unique_ptr<Workload> make_text_workload(const WorkloadSettings& settings) {
  return std::make_unique<TextWorkload>(settings);
}

}  // namespace tandem::bench
