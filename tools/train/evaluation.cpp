#include "tools/train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "tandem/autograd/grad_mode.h"
#include "tandem/core/recorder.h"
#include "tandem/data/loader.h"
#include "tandem/distributed/error.h"
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

std::optional<Evaluation> evaluate(Ranks& ranks, nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                                   std::int64_t batch_size, const StopSignal& stop, core::Tensor* outputs) {
  const core::RecordScope scope("evaluate", "phase");
  const autograd::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  const core::DType dtype = model.parameters().front().dtype();
  const data::Sampler sampler(
      {.samples = dataset->size(), .batch_size = batch_size, .rank = ranks.rank(), .world_size = ranks.size()});
  data::Loader loader(dataset, sampler);
  loader.begin_epoch({});

  core::Tensor sums = core::Tensor::zeros({3}, {.dtype = core::DType::float64});  // of losses, correct ones; stopped
  double* sum = sums.mutable_data<double>();
  std::int64_t begin = 0;  // of the global batch
  while (const auto window = loader.next_window()) {
    if (stop.received()) sum[2] = 1;
    if (stop.received()) break;
    const data::Batch& batch = window->micro_batches.front();
    const nn::Variable logits = model.forward(batch.input.to(dtype));
    nn::CrossEntropyOptions options;
    options.reduction = nn::Reduction::sum;  // a rank may have no rows
    sum[0] += nn::cross_entropy(logits, batch.target, options).data().item();
    sum[1] += static_cast<double>(count_correct(logits.data(), batch.target));
    if (outputs) {
      if (begin == 0) *outputs = core::Tensor::zeros({dataset->size(), logits.size(1)}, {.dtype = dtype});
      outputs->slice(0, begin + ranks.rank(), begin + window->rows, ranks.size()).copy_from(logits.data());
    }
    begin += window->rows;
  }
  ranks.group()->all_reduce(sums, {.label = "evaluation"})->wait();
  if (sum[2] > 0) return std::nullopt;
  if (outputs) ranks.group()->all_reduce(*outputs, {.label = "outputs"})->wait();  // each row is one rank's, else zero
  const auto samples = static_cast<double>(dataset->size());
  if (!std::isfinite(sum[0]))
    throw distributed::SharedError(
        fmt::format("the evaluation's loss is {}: the weights or the data hold values that are not finite or too large",
                    sum[0] / samples));
  return Evaluation{.loss = sum[0] / samples, .accuracy = sum[1] / samples};
}

}  // namespace tandem::train
