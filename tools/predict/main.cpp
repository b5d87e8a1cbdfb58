// The program `predict`: classes of images and lines of text, with the weights of a finished run.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tandem/autograd/grad_mode.h"
#include "tandem/core/files/file.h"
#include "tandem/core/parallel.h"
#include "tandem/core/start_thread.h"
#include "tandem/core/thread_count.h"
#include "tools/exit.h"
#include "tools/predict/inputs.h"
#include "tools/predict/predictions.h"
#include "tools/train/files/finished_run.h"
#include "tools/train/files/pretrained.h"
#include "tools/train/settings/bert_settings.h"
#include "tools/train/tasks/make_task.h"

namespace tandem::predict {
namespace {

// What the columns of logits are called: as the weights say, else as a BERT's configuration, else their numbers.
std::vector<std::string> names_of_classes(const train::Settings& settings, const train::StoredWeights& weights,
                                          const Inputs& inputs, std::int64_t columns) {
  std::vector<std::string> names;
  if (inputs.fills_masks) {
    const data::Vocabulary& words = inputs.data.tokenizer->vocabulary;
    for (std::int64_t i = 0; i < words.size(); ++i) names.push_back(words.token(i));
  } else {
    names = class_names(weights);
    if (names.empty() && is_bert(settings)) names = bert_config_of(settings).label_names;
    if (std::ssize(names) > columns)
      core::fail("{}: names {} classes, but tells {} apart", weights.file, names.size(), columns);
  }
  for (auto number = std::ssize(names); number < columns; ++number) names.push_back(std::to_string(number));
  return names;
}

// Of a row of logits: the input that it is about.
const std::string& input_of(const Inputs& inputs, std::int64_t row) {
  std::size_t i = 0;
  for (; row >= inputs.rows[i]; ++i) row -= inputs.rows[i];
  return inputs.names[i];
}

core::Tensor compute_logits(const train::Settings& settings, train::Task& task, const Inputs& inputs) {
  const autograd::NoGradGuard no_grad;
  task.model().eval();
  std::vector<float> all;
  std::int64_t columns = 0, rows = 0;
  const std::int64_t samples = inputs.data.train->size();
  for (std::int64_t begin = 0; begin < samples; begin += settings.batch_size) {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = begin; i < std::min(samples, begin + settings.batch_size); ++i) indices.push_back(i);
    const core::Tensor logits = task.evaluate(inputs.data.train->read(indices), /*with_outputs=*/false).logits;
    const std::vector<float> values = logits.to(core::DType::float32).contiguous().to_vector<float>();
    columns = logits.size(1);
    const auto wrong = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
    if (wrong != values.end())
      core::fail("the model gives values that are not finite for {}",
                 input_of(inputs, rows + (wrong - values.begin()) / columns));
    all.insert(all.end(), values.begin(), values.end());
    rows += logits.size(0);
  }
  return core::Tensor::from(all, {rows, columns});
}

Predictions predict(const Options& options, const train::StoredWeights& weights) {
  train::Settings settings = options.settings;
  settings.eval_only = true;  // no part of the model may be missing
  settings.predict_all = false;
  settings.save_outputs = std::nullopt;
  train::fit_settings(weights, settings);
  const bool classifies = find_weight(weights, "classifier.weight") != nullptr;
  if (is_bert(settings) && !classifies && !find_weight(weights, "cls.predictions.transform.dense.weight"))
    core::fail("{}: has neither a classifier nor a head for masked words, so there is nothing to predict with",
               weights.file);
  Options adapted = options;
  adapted.settings = settings;
  const Inputs inputs = open_inputs(adapted, classifies);
  settings.data = options.inputs.front();
  settings.seq_length = std::nullopt;
  if (!classifies && is_bert(settings)) settings.classes = std::nullopt;
  const auto task = train::make_task(settings, inputs.data);
  train::load_weights(settings, weights.file, weights.state, task->model());

  Predictions result{.inputs = {}, .masks = {}, .classes = {}, .logits = compute_logits(settings, *task, inputs)};
  for (std::size_t i = 0; i < inputs.names.size(); ++i)
    for (std::int64_t row = 0; row < inputs.rows[i]; ++row) {
      result.inputs.push_back(inputs.names[i]);
      if (inputs.fills_masks) result.masks.push_back(row + 1);
    }
  result.classes = names_of_classes(settings, weights, inputs, result.logits.size(1));
  return result;
}

void run(const Options& options) {
  const int threads = core::threads_of_rank(options.settings.threads, /*ranks=*/1);
  core::check_compute_threads(threads);
  core::set_num_threads(threads);
  if (options.output) const core::AtomicFile can_be_written(*options.output);  // else all would be computed in vain
  const train::StoredWeights weights =
      options.from ? train::weights_of_run(*options.from) : train::weights_of_file(*options.weights);
  for (const std::string& newer : weights.damaged)
    std::fputs(fmt::format("predict: passed over: {}\n", newer).c_str(), stderr);
  const Predictions predictions = predict(options, weights);
  if (options.output && options.output->ends_with(".safetensors"))
    save_safetensors(*options.output, predictions);
  else if (options.output)
    core::write_file_atomically(*options.output, to_csv(predictions, options.top));
  else
    std::fputs(to_csv(predictions, options.top).c_str(), stdout);
}

}  // namespace
}  // namespace tandem::predict

int main(int argc, char** argv) {
  using namespace tandem;
  return run_program("predict", [&] {
    if (const auto options = predict::parse_command_line(argc, argv)) predict::run(*options);
  });
}
