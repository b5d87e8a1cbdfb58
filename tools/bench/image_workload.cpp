#include <fmt/core.h>

#include "tandem/core/ops/random_fill.h"
#include "tandem/models/model_zoo.h"
#include "tandem/nn/activation.h"
#include "tandem/nn/linear.h"
#include "tandem/nn/loss.h"
#include "tandem/nn/sequential.h"
#include "tools/bench/workload.h"

namespace tandem::bench {
namespace {

using core::Shape;
using core::Tensor;
using nn::Variable;

// So small that only bookkeeping is measured.
std::shared_ptr<nn::Module> make_tiny_mlp() {
  core::Generator random(0);
  auto net = std::make_shared<nn::Sequential>();
  net->add<nn::Linear>(16, 32, random)
      .add<nn::ReLU>()
      .add<nn::Linear>(32, 32, random)
      .add<nn::ReLU>()
      .add<nn::Linear>(32, 10, random);
  return net;
}

bool is_resnet(const WorkloadSettings& settings) { return settings.model.starts_with("resnet"); }

Shape sample_shape(const WorkloadSettings& settings) {
  if (is_resnet(settings)) return {3, settings.image_size, settings.image_size};
  if (settings.model == "tiny-mlp") return {16};
  if (settings.model == "convnet") return {1, 28, 28};
  return {784};
}

class ImageWorkload final : public Workload {
 public:
  explicit ImageWorkload(const WorkloadSettings& settings)
      : model_(settings.model == "tiny-mlp" ? make_tiny_mlp()
                                            : models::make_model(settings.model, {.recompute = settings.recompute})) {
    Shape shape{settings.batch_size};
    for (const std::int64_t size : sample_shape(settings)) shape.push_back(size);
    input_ = Tensor::empty(shape);
    core::fill_uniform(input_, -1, 1, core::RandomContext{.seed = 1}.stream(0));
    input_ = input_.to(settings.activations);
    const std::int64_t classes = is_resnet(settings) ? 1000 : 10;
    std::vector<std::int64_t> target(static_cast<std::size_t>(settings.batch_size));
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = static_cast<std::int64_t>(i) % classes;
    target_ = Tensor::from(target);
  }

  nn::Module& module() override { return *model_; }
  Variable loss() override { return nn::cross_entropy(model_->forward(Variable(input_)), target_); }
  std::string describe_batch() const override {
    std::string text;
    for (const std::int64_t size : input_.shape()) text += fmt::format("{}{}", text.empty() ? "" : " x ", size);
    return text;
  }

 private:
  std::shared_ptr<nn::Module> model_;
  Tensor input_, target_;
};

}  // namespace

std::unique_ptr<Workload> make_image_workload(const WorkloadSettings& settings) {
  return std::make_unique<ImageWorkload>(settings);
}

}  // namespace tandem::bench
