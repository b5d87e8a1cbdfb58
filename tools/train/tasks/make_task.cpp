#include "tools/train/tasks/make_task.h"

#include <unistd.h>

#include <algorithm>

#include "tandem/autograd/grad_mode.h"
#include "tandem/models/bert_heads.h"
#include "tandem/models/model_zoo.h"
#include "tandem/train/classification.h"
#include "tools/train/settings/bert_settings.h"
#include "tools/train/tasks/pre_training.h"

namespace tandem::train {
namespace {

using core::DType;
using core::fail;

DType weights_dtype(const Settings& settings) { return settings.precision == "fp64" ? DType::float64 : DType::float32; }
DType activations_dtype(const Settings& settings) {
  return settings.precision == "bf16" ? DType::bfloat16 : weights_dtype(settings);
}

std::uint64_t seed_of(const Settings& settings) { return static_cast<std::uint64_t>(settings.seed); }

models::ModelOptions options_for(const Settings& settings, const data::LabelledDataset& images) {
  models::ModelOptions options{.seed = seed_of(settings)};
  if (!is_resnet(settings)) return options;
  const core::Shape shape = images.sample_shape();
  if (shape.rank() != 3)
    fail("--model {} does not take --data {}: samples have shape {}, needed [C, H, W]", settings.model, *settings.data,
         shape.str());
  const std::string stem = settings.stem.value_or(usual_stem(std::min(shape[1], shape[2])));
  options.stem = stem == "small" ? models::Stem::small : models::Stem::imagenet;
  options.in_channels = shape[0];
  options.classes = settings.classes.value_or(images.classes());
  options.recompute = settings.recompute;
  return options;
}

// One sample through the model: do they fit?
void check_fits(const Settings& settings, Task& task, const data::LabelledDataset& images) {
  const autograd::NoGradGuard no_grad;
  task.model().eval();
  core::Shape output;
  try {
    const std::int64_t first = 0;
    output = task.evaluate(images.read({&first, 1}).to(core::default_device()), /*with_outputs=*/true)
                 .outputs.front()
                 .second.shape();
  } catch (const core::Error& error) {
    fail("--model {} does not take --data {}, samples of shape {}: {}", settings.model, *settings.data,
         images.sample_shape().str(), error.what());
  }
  task.model().train();
  if (output.back() < images.classes())
    fail("--model {} tells {} classes apart, --data {} has {}", settings.model, output.back(), *settings.data,
         images.classes());
}

std::unique_ptr<Task> make_image_task(const Settings& settings, const data::LabelledDataset& images) {
  if (is_bert(settings))
    fail("--model {} reads text, --data {} has samples of shape {}", settings.model, *settings.data,
         images.sample_shape().str());
  const auto model = models::make_model(settings.model, options_for(settings, images));
  model->to(weights_dtype(settings));
  const DType dtype = activations_dtype(settings);
  auto forward = [model, dtype](const data::Batch& batch) { return model->forward(batch.input.to(dtype)); };
  auto task = std::make_unique<Classification>(model, forward, settings.label_smoothing);
  check_fits(settings, *task, images);
  return task;
}

void check_sizes(const Settings& settings, const models::BertConfig& config, const data::TextDataset& text) {
  const auto check = [&](const char* what, std::int64_t of_data, std::int64_t of_model) {
    if (of_data > of_model)
      fail("--model {} has {} {}, --data {} needs {}", settings.model, of_model, what, *settings.data, of_data);
  };
  if (settings.seq_length && *settings.seq_length > config.max_position_embeddings)
    fail("--seq-length {} is more than the {} positions of --model {}", *settings.seq_length,
         config.max_position_embeddings, settings.model);
  check("tokens", text.vocabulary_size(), config.vocab_size);
  check("positions", text.seq_length(), config.max_position_embeddings);
  check("token types", text.token_types(), config.type_vocab_size);
}

// Weights alone, before any of them is made: a configuration is a file from elsewhere.
void check_memory(const Settings& settings, const models::BertConfig& config) {
  const double parameters = models::parameter_count(config);
  const double needed = parameters * static_cast<double>(core::item_size(weights_dtype(settings)));
  const double there = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  constexpr double kGiB = 1 << 30;
  if (needed > there)
    fail("{}: {:.3g} parameters take {:.0f} GiB, this machine has {:.0f}",
         settings.model_config.value_or(settings.model), parameters, needed / kGiB, there / kGiB);
}

std::unique_ptr<Task> make_classifier(const Settings& settings, const models::BertConfig& config,
                                      const data::TextDataset& text, core::Generator& random) {
  if (settings.predict_all)
    fail("--predict-all is for tokens to predict, --data {} has a class for each sample", *settings.data);
  const std::int64_t classes = settings.classes.value_or(std::max(config.num_labels, text.classes()));
  if (classes < text.classes())
    fail("--model {} tells {} classes apart, --data {} has {}", settings.model, classes, *settings.data,
         text.classes());
  const auto model = std::make_shared<models::BertForSequenceClassification>(config, random, classes);
  model->to(weights_dtype(settings));
  model->bert().set_recompute(settings.recompute);
  const DType dtype = activations_dtype(settings);
  auto forward = [model, dtype](const data::Batch& batch) { return model->forward(bert_input(batch, dtype)); };
  return std::make_unique<Classification>(model, forward, settings.label_smoothing);
}

std::unique_ptr<Task> make_text_task(const Settings& settings, const data::TextDataset& text) {
  if (!is_bert(settings)) fail("--model {} reads images, --data {} is text", settings.model, *settings.data);
  const models::BertConfig config = bert_config_of(settings);
  check_sizes(settings, config, text);
  check_memory(settings, config);
  core::Generator random(seed_of(settings));
  if (text.classes() > 0) return make_classifier(settings, config, text, random);
  if (settings.classes)
    fail("--classes is for samples with a class each, --data {} has tokens to predict", *settings.data);
  const auto model = std::make_shared<models::BertForPreTraining>(config, random, text.pairs());
  model->to(weights_dtype(settings));
  model->bert().set_recompute(settings.recompute);
  return std::make_unique<PreTraining>(model, activations_dtype(settings), settings.predict_all,
                                       settings.label_smoothing);
}

}  // namespace

std::unique_ptr<Task> make_task(const Settings& settings, const DataSource& data) {
  if (const auto* images = data.labelled()) return make_image_task(settings, *images);
  return make_text_task(settings, *data.text());
}

}  // namespace tandem::train
