// The oracle: W ranks x B rows x K micro-steps train exactly as one process with W*B*K rows does.
//
// Both sides take three steps of SGD with momentum and weight decay on the same rows; the number of rows divides
// evenly by nothing, so that ranks have unequal shares, or none.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tandem/core/ops/random_fill.h"
#include "tandem/distributed/distributed_data_parallel.h"
#include "tandem/distributed/world.h"
#include "tandem/models/model_zoo.h"
#include "tandem/nn/dropout.h"
#include "tandem/nn/loss.h"
#include "tandem/optim/sgd.h"

namespace tandem::distributed {

struct OracleCase {
  std::string model = "mlp";
  int ranks = 2;
  int micro_steps = 1;  ///< of an update
  core::DType dtype = core::DType::float64;
  DataParallelOptions options = {};
  std::int64_t batch = 2;  ///< rows of a rank's micro-step
  core::Shape sample{1, 28, 28};
  /// The model in its training mode, of the given seed; by default what `model` names.
  std::function<std::shared_ptr<nn::Module>(std::uint64_t seed)> make = {};
};

constexpr int kSteps = 3;

/// What a rank ends with.
struct Trained {
  std::vector<std::string> names;
  std::vector<Tensor> weights, gradients;  ///< of the last update
  std::vector<IterationRecord> records;    ///< one for each update
};

/// Rows of update `step`: in the last micro-step one is missing, so that some rank has less than the others.
struct Rows {
  Tensor input, target;

  Rows(const OracleCase& c, std::int64_t count, int step)
      : input(Tensor::empty({count, c.sample[0], c.sample[1], c.sample[2]}, {.dtype = c.dtype})) {
    core::fill_normal(input, 0, 1, core::RandomContext{.seed = 3, .step = static_cast<std::uint32_t>(step)}.stream(0));
    std::vector<std::int64_t> classes;
    for (std::int64_t row = 0; row < count; ++row) classes.push_back((row * 7 + step) % 10);
    target = Tensor::from(classes);
  }
};

inline std::shared_ptr<nn::Module> oracle_model(const OracleCase& c, std::uint64_t seed) {
  auto model = c.make ? c.make(seed) : models::make_model(c.model, {.seed = seed});
  model->to(c.dtype);
  for (nn::Module* module : model->modules())
    if (auto* dropout = dynamic_cast<nn::Dropout*>(module)) dropout->set_p(0);
  return model;
}

inline void keep(Trained& trained, const nn::Module& model) {
  for (const auto& [name, variable] : model.named_parameters()) {
    trained.names.push_back(name);
    trained.weights.push_back(variable.data().clone());
    trained.gradients.push_back(variable.grad().clone());
  }
}

inline optim::Sgd oracle_optimizer(const nn::Module& model) {
  return optim::Sgd(model.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01});
}

inline nn::Variable sum_of_losses(const nn::Variable& logits, const Tensor& target) {
  nn::CrossEntropyOptions options;
  options.reduction = nn::Reduction::sum;  // a rank may have no rows
  return nn::cross_entropy(logits, target, options);
}

inline std::int64_t rows_of_update(const OracleCase& c) { return c.ranks * c.batch * c.micro_steps - 1; }

/// One process, all rows at once.
inline Trained train_alone(const OracleCase& c) {
  const auto model = oracle_model(c, /*seed=*/0);
  optim::Sgd sgd = oracle_optimizer(*model);
  for (int step = 0; step < kSteps; ++step) {
    const Rows rows(c, rows_of_update(c), step);
    sgd.zero_grad();
    nn::cross_entropy(model->forward(rows.input), rows.target).backward();
    sgd.step();
  }
  Trained trained;
  keep(trained, *model);
  return trained;
}

/// One of the ranks. Its weights begin elsewhere, but for rank 0.
inline Trained train_rank(const OracleCase& c, const std::shared_ptr<ProcessGroup>& group) {
  const auto model = oracle_model(c, static_cast<std::uint64_t>(group->rank()));
  DistributedDataParallel ddp(*model, group, c.options);
  optim::Sgd sgd = oracle_optimizer(*model);
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const std::int64_t count = rows_of_update(c), global_batch = c.ranks * c.batch;
    const Rows rows(c, count, step);
    sgd.zero_grad();
    for (int m = 0; m < c.micro_steps; ++m) {
      const std::int64_t begin = m * global_batch + group->rank(), end = std::min(count, (m + 1) * global_batch);
      const nn::Variable loss = sum_of_losses(ddp.forward(rows.input.slice(0, begin, end, c.ranks).contiguous()),
                                              rows.target.slice(0, begin, end, c.ranks).contiguous());
      const autograd::BackwardOptions scaled{
          .gradient = Tensor::scalar(static_cast<double>(c.ranks) / static_cast<double>(count), c.dtype)};
      if (m + 1 < c.micro_steps) {
        const auto local_only = ddp.no_sync();
        loss.backward(scaled);
      } else {
        loss.backward(scaled);
      }
    }
    sgd.step();
    trained.records.push_back(ddp.reducer().last_iteration());
  }
  keep(trained, *model);
  return trained;
}

}  // namespace tandem::distributed
