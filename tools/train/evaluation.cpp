#include "tools/train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "tandem/autograd/grad_mode.h"
#include "tandem/core/recorder.h"
#include "tandem/data/loader.h"
#include "tandem/nn/loss.h"

namespace tandem::train {
namespace {

/// Evaluation mode for as long as it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& model) : model_(model), was_training_(model.is_training()) { model_.eval(); }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Module& model_;
  bool was_training_;
};

// Rows of logits [N, C] whose largest element, the first of them, is the target's.
std::int64_t count_correct(const core::Tensor& logits, const core::Tensor& target) {
  const auto values = logits.to_vector<double>();
  const auto targets = target.to_vector<std::int64_t>();
  const std::int64_t classes = logits.size(1);
  std::int64_t correct = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const auto first = values.begin() + static_cast<std::int64_t>(row) * classes;
    correct += std::max_element(first, first + classes) - first == targets[row];
  }
  return correct;
}

}  // namespace

std::optional<Evaluation> evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                                   std::int64_t batch_size, const StopSignal& stop, core::Tensor* outputs) {
  const core::RecordScope scope("evaluate", "phase");
  const autograd::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  const core::DType dtype = model.parameters().front().dtype();
  data::Loader loader(dataset, data::Sampler({.samples = dataset->size(), .batch_size = batch_size}));
  loader.begin_epoch({});

  double loss_sum = 0;
  std::int64_t rows = 0, correct = 0;
  while (const auto window = loader.next_window()) {
    if (stop.received()) return std::nullopt;
    const data::Batch& batch = window->micro_batches.front();
    const nn::Variable logits = model.forward(batch.input.to(dtype));
    loss_sum += nn::cross_entropy(logits, batch.target).data().item() * static_cast<double>(window->rows);
    correct += count_correct(logits.data(), batch.target);
    if (outputs) {
      if (rows == 0) *outputs = core::Tensor::empty({dataset->size(), logits.size(1)}, {.dtype = dtype});
      outputs->slice(0, rows, rows + window->rows).copy_from(logits.data());
    }
    rows += window->rows;
  }
  const double loss = loss_sum / static_cast<double>(rows);
  if (!std::isfinite(loss))
    core::fail("the evaluation's loss is {}: the weights or the data hold values that are not finite or too large",
               loss);
  return Evaluation{.loss = loss, .accuracy = static_cast<double>(correct) / static_cast<double>(rows)};
}

}  // namespace tandem::train
