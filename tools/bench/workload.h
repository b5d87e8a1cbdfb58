// What `bench step` trains: a model with one batch that stays, and the loss that goes with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/core/dtype.h"
#include "tandem/nn/module.h"

namespace tandem::bench {

enum class Predict : std::uint8_t { all, masked };

struct WorkloadSettings {
  std::string model = "convnet";
  std::int64_t batch_size = 0;  ///< 0: what is usual for the model
  std::int64_t image_size = 224;
  std::int64_t seq_length = 128;
  Predict predict = Predict::all;
  core::DType activations = core::DType::float32;  ///< weights are float32
  bool recompute = false;                          ///< of ResNets and BERTs: activations again in backward
};

/// What is usual for a model.
struct WorkloadDefaults {
  std::string model;
  std::int64_t batch_size, steps;
  const char* optimizer;  ///< "sgd", "adamw"
  double momentum;        ///< of sgd
};

/// Of every model that there is.
const std::vector<WorkloadDefaults>& workload_defaults();
/// Throws Error where there is no such model.
const WorkloadDefaults& defaults_of(const std::string& model);

class Workload {
 public:
  virtual ~Workload() = default;
  virtual nn::Module& module() = 0;
  /// Forward and loss, a scalar.
  virtual nn::Variable loss() = 0;
  /// Of the batch: "16 x 3 x 224 x 224".
  virtual std::string describe_batch() const = 0;
};

/// Rows of numbers, or images [N, C, H, W], with a class each.
std::unique_ptr<Workload> make_image_workload(const WorkloadSettings& settings);
/// Sequences of tokens for a BERT with the masked-LM head, without next sentence and pooler.
std::unique_ptr<Workload> make_text_workload(const WorkloadSettings& settings);
/// Whichever the model is. Throws Error where a size does not go with it.
std::unique_ptr<Workload> make_workload(const WorkloadSettings& settings);

}  // namespace tandem::bench
