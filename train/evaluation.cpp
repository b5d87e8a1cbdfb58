#include "tandem/train/evaluation.h"

#include <cmath>

#include "tandem/autograd/grad_mode.h"
#include "tandem/core/recorder.h"
#include "tandem/data/loader.h"
#include "tandem/distributed/error.h"

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

/// What is added up over batches and ranks: of each term the losses and the items, then the first term's correct
/// items, then how many ranks were stopped.
class Sums {
 public:
  explicit Sums(std::size_t terms)
      : terms_(terms),
        values_(core::Tensor::zeros({static_cast<std::int64_t>(2 * terms + 2)},
                                    {.dtype = core::DType::float64, .device = core::kCpu})) {}

  void add(const BatchEvaluation& batch) {
    for (std::size_t t = 0; t < terms_; ++t) {
      at(2 * t) += batch.sums[t];
      at(2 * t + 1) += batch.items[t];
    }
    at(2 * terms_) += batch.correct;
  }
  void stop() { at(2 * terms_ + 1) = 1; }
  void all_reduce(distributed::ProcessGroup& group) { group.all_reduce(values_, {.label = "evaluation"})->wait(); }

  bool is_stopped() const { return at(2 * terms_ + 1) > 0; }
  double mean(std::size_t term) const { return at(2 * term + 1) > 0 ? at(2 * term) / at(2 * term + 1) : 0; }
  bool has_items() const {
    for (std::size_t t = 0; t < terms_; ++t)
      if (at(2 * t + 1) > 0) return true;
    return false;
  }
  double accuracy() const { return at(1) > 0 ? at(2 * terms_) / at(1) : 0; }

 private:
  double& at(std::size_t i) { return values_.mutable_data<double>()[i]; }
  double at(std::size_t i) const { return values_.data<double>()[i]; }

  std::size_t terms_;
  core::Tensor values_;
};

// Puts a batch's outputs where its rows stand in the data set: `window` begins at row `begin`.
void place(const BatchEvaluation& batch, std::int64_t samples, std::int64_t begin, std::int64_t rows,
           const Ranks& ranks, Outputs& outputs) {
  for (std::size_t i = 0; i < batch.outputs.size(); ++i) {
    const auto& [name, values] = batch.outputs[i];
    if (i == outputs.size()) {
      core::Shape shape = values.shape();
      shape[0] = samples;
      const core::DType dtype = values.dtype() == core::DType::bfloat16 ? core::DType::float32 : values.dtype();
      outputs.emplace_back(name, core::Tensor::zeros(shape, {.dtype = dtype, .device = core::kCpu}));
    }
    outputs[i].second.slice(0, begin + ranks.rank(), begin + rows, ranks.size()).copy_from(values);
  }
}

Evaluation summarize(const Sums& sums, const std::vector<std::string>& terms) {
  Evaluation result{.has_items = sums.has_items(), .loss = 0, .accuracy = sums.accuracy(), .terms = {}};
  for (std::size_t t = 0; t < terms.size(); ++t) {
    result.terms.emplace_back(terms[t], sums.mean(t));
    result.loss += sums.mean(t);
  }
  if (!std::isfinite(result.loss))
    throw distributed::SharedError(
        fmt::format("the evaluation's loss is {}: the weights or the data hold values that are not finite or too large",
                    result.loss));
  return result;
}

}  // namespace

std::optional<Evaluation> evaluate(const EvaluationOptions& options, Ranks& ranks, Task& task,
                                   const std::shared_ptr<const data::Dataset>& dataset,
                                   const std::function<bool()>& is_stopped, Outputs* outputs) {
  const core::RecordScope scope("evaluate", "phase");
  const autograd::NoGradGuard no_grad;
  const EvaluationMode mode(task.model());
  const data::Sampler sampler(
      {.samples = dataset->size(), .batch_size = options.batch_size, .rank = ranks.rank(), .world_size = ranks.size()});
  data::Loader loader(dataset, sampler, {.threads = options.data_threads, .device = core::default_device()});
  loader.begin_epoch({});

  Sums sums(task.terms().size());
  std::int64_t begin = 0;  // of the global batch
  while (const auto window = loader.next_window()) {
    if (is_stopped()) {  // asked once: what was cut never counts as whole
      sums.stop();
      break;
    }
    const BatchEvaluation batch = task.evaluate(window->micro_batches.next(), outputs != nullptr);
    sums.add(batch);
    if (outputs) place(batch, dataset->size(), begin, window->rows, ranks, *outputs);
    begin += window->rows;
  }
  sums.all_reduce(*ranks.group());
  if (sums.is_stopped()) return std::nullopt;
  if (outputs)  // each row is one rank's, else zero
    for (auto& [name, values] : *outputs) ranks.group()->all_reduce(values, {.label = "outputs"})->wait();
  return summarize(sums, task.terms());
}

}  // namespace tandem::train
