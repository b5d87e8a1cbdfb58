#include "tools/train/settings/setting_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "tandem/data/text/unicode.h"
#include "tandem/models/bert_config.h"
#include "tandem/models/model_zoo.h"
#include "tandem/optim/make_optimizer.h"
#include "tools/train/settings/near_names.h"
#include "tools/train/settings/text_json.h"

namespace tandem::train {
namespace {

using nlohmann::json;

template <class T>
struct Value {
  using type = T;
};
template <class T>
struct Value<std::optional<T>> {
  using type = T;
};

/// What a field may hold, and how that is said.
template <class T>
struct Allowed {
  std::string text;
  std::function<bool(const T&)> check = [](const T&) { return true; };
  bool is_path = false;  ///< of the rank's machine
  bool is_output = false;
};

Allowed<std::string> any_text(const char* text) { return {.text = text}; }
/// Of text that files hold as such.
Allowed<std::string> utf8_text(const char* text) {
  return {text, [](const std::string& value) { return !data::find_invalid_utf8(value); }};
}
Allowed<std::string> path(const char* text) { return {.text = text, .is_path = true}; }
Allowed<std::string> output(const char* text) { return {.text = text, .is_path = true, .is_output = true}; }
Allowed<bool> on_or_off() { return {.text = "true or false"}; }
Allowed<std::int64_t> at_least(std::int64_t low) {
  return {fmt::format("a whole number >= {}", low), [low](std::int64_t value) { return value >= low; }};
}
Allowed<std::int64_t> between(std::int64_t low, std::int64_t high) {
  return {fmt::format("a whole number from {} to {}", low, high),
          [=](std::int64_t value) { return value >= low && value <= high; }};
}
Allowed<double> above_zero() {
  return {"a number > 0", [](double value) { return value > 0; }};
}
Allowed<double> not_negative() {
  return {"a number >= 0", [](double value) { return value >= 0; }};
}
/// [0, high], or without `high` itself.
Allowed<double> fraction(double high, bool closed) {
  return {fmt::format("a number from 0 to {}{}", closed ? "" : "below ", high),
          [=](double value) { return value >= 0 && (closed ? value <= high : value < high); }};
}
/// (0, 1)
Allowed<double> fraction_within() {
  return {"a number > 0 and < 1", [](double value) { return value > 0 && value < 1; }};
}
Allowed<std::string> one_of(std::vector<std::string> names) {
  std::string text = fmt::format("one of {}", fmt::join(names, ", "));
  return {std::move(text), [names = std::move(names)](const std::string& value) {
            return std::find(names.begin(), names.end(), value) != names.end();
          }};
}
Allowed<std::string> data_or_place() {
  Allowed<std::string> named = one_of({"fashion-mnist", "mnist", "cifar10", "wordnet", "synthetic"});
  return {named.text + ", imagefolder:DIR, text:FILE, or tensors:FILE",
          [is_named = named.check](const std::string& value) {
            const auto [kind, place] = data_name(value);
            if (kind == "imagefolder" || kind == "text" || kind == "tensors") return !place.empty();
            return is_named(value);
          }};
}

/// All models by name, and "bert" with a file.
std::vector<std::string> all_models() {
  std::vector<std::string> names = models::model_names();
  for (const std::string& size : models::bert_config_names()) names.push_back("bert-" + size);
  names.emplace_back("bert");
  return names;
}

template <class T>
bool parse(const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
    return !text.empty() && text.find('\0') == text.npos;  // a path would end there
  } else if constexpr (std::is_same_v<T, bool>) {
    value = text == "true";
    return text == "true" || text == "false";
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    return std::is_integral_v<T> || std::isfinite(static_cast<double>(value));
  }
}

template <class T>
bool is_of_type(const json& value) {
  if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
  return value.is_number();
}

template <class Field, class T = typename Value<Field>::type>
bool read(const std::string& text, Field& field, const Allowed<T>& allowed) {
  T value{};
  if (!parse(text, value) || !allowed.check(value)) return false;
  field = value;
  return true;
}

template <class Field, class T = typename Value<Field>::type>
bool read_json(const json& value, Field& field, const Allowed<T>& allowed) {
  if constexpr (!std::is_same_v<Field, T>) {
    if (value.is_null()) {
      field.reset();
      return true;
    }
  }
  if constexpr (std::is_same_v<T, std::string>) {
    const auto text = text_from_json(value);
    return text && read(*text, field, allowed);
  } else {
    // A number's text has as many digits as it takes to read the same number.
    return is_of_type<T>(value) && read(value.dump(), field, allowed);
  }
}

template <class Field>
json write_json(const Field& field) {
  if constexpr (!std::is_same_v<Field, typename Value<Field>::type>) {
    return field ? write_json(*field) : json();
  } else if constexpr (std::is_same_v<Field, std::string>) {
    return text_to_json(field);
  } else {
    return field;
  }
}

class Table {
 public:
  void group(const char* name) { group_ = name; }

  template <class Field, class T = typename Value<Field>::type>
  Setting& row(const char* name, Field& field, Allowed<T> allowed, const char* help) {
    return rows_.emplace_back(
        Setting{.name = name,
                .group = group_,
                .help = help,
                .allowed = allowed.text,
                .is_switch = std::is_same_v<T, bool>,
                .is_of_one_rank = allowed.is_path,
                .is_output = allowed.is_output,
                .read = [&field, allowed](const std::string& text) { return read(text, field, allowed); },
                .read_json = [&field, allowed](const json& value) { return read_json(value, field, allowed); },
                .write_json = [&field] { return write_json(field); }});
  }

  std::vector<Setting> take() { return std::move(rows_); }

 private:
  std::string group_;
  std::vector<Setting> rows_;
};

void add_model_and_length(Table& table, Settings& s) {
  table.group("Model and data");
  table.row("model", s.model, one_of(all_models()),
            "Model to train; bert takes its sizes from --model-config [convnet]");
  table.row("model-config", s.model_config, path("a file"),
            "config.json for --model bert, in the format of Hugging Face");
  table.row("dropout", s.dropout, fraction(1, true), "Rate that replaces every dropout rate of the model");
  table.row("stem", s.stem, one_of({"imagenet", "small"}),
            "First layers of a ResNet: imagenet is a 7x7 convolution with stride 2 and a pool, small is a 3x3 "
            "convolution [small for images below 64 pixels]");
  table.row("classes", s.classes, between(1, 1 << 20),
            "Number of classes, for a ResNet or a BERT that classifies [as many as the data have]");
  table.row("predict-all", s.predict_all, on_or_off(),
            "Compute BERT's logits at all positions, not only at the masked ones");
  table.row("data", s.data, data_or_place(),
            "Training data; text has one sentence per line; tensors is a safetensors file with input and target, or "
            "input_ids and labels, in file order [fashion-mnist; wordnet for a BERT]");
  table.row("data-dir", s.data_dir, path("a folder"),
            "Folder of fashion-mnist, mnist, cifar10 or wordnet [for fashion-mnist and wordnet: where Debian's package "
            "puts it]");
  table.row("data-threads", s.data_threads, between(1, 1024), "Threads per rank that read and decode samples [1]")
      .is_of_one_rank = true;
  table.row("synthetic-samples", s.synthetic_samples, between(1, std::int64_t{1} << 31),
            "Number of training samples of --data synthetic [4096]");
  table.row("image-size", s.image_size, between(1, 4096),
            "Height and width of images from imagefolder or synthetic [224]");
  table.row("val-fraction", s.val_fraction, fraction_within(),
            "Share of the images that is held out for evaluation, if the folder of --data imagefolder has neither val "
            "nor test [0.1]");
  table.row("skip-bad-images", s.skip_bad_images, on_or_off(),
            "Decode every image of --data imagefolder once before training; leave out and count those that cannot be "
            "decoded");
  table.row("seq-length", s.seq_length, between(2, 1 << 20), "Tokens per sample of text [128]");
  table.row("vocab", s.vocab, path("a file"),
            "vocab.txt or tokenizer.json for a BERT [the one in the folder of --init-weights; without it a vocabulary "
            "is learned from the text]");
  table.row("eval-data", s.eval_data, path("a file"),
            "Text file to evaluate on, one sentence per line; all of --data is then used for training [every 50th "
            "document of --data]");
  table.row("cased", s.cased, on_or_off(), "Keep upper case and accents apart in the vocabulary");
  table.row("sentence-pairs", s.sentence_pairs, on_or_off(),
            "Make samples of two sentences; BERT also predicts whether the second one follows the first");
  table.group("Length");
  table.row("batch-size", s.batch_size, at_least(1), "Samples per rank and micro-step [64]");
  table.row("accumulation-steps", s.accumulation_steps, between(1, 1 << 16), "Micro-steps per update [1]");
  table.row("epochs", s.epochs, at_least(1), "Passes over the training data [1, without --steps]");
  table.row(
      "steps", s.steps, at_least(1),
      "Number of updates, over as many epochs as needed; with --epochs, training ends with whichever is reached first");
  table.row("eval-every", s.eval_every, at_least(0),
            "Updates between evaluations; 0 turns evaluation off [one per epoch]; there is always one at the end, "
            "unless this is 0");
}

void add_ranks(Table& table, Settings& s) {
  table.group("Ranks");
  table.row("rank", s.rank, at_least(0), "Number of this process [RANK, or what mpirun or srun sets, else 0]")
      .of_one_process();
  table
      .row("world-size", s.world_size, at_least(1),
           "Number of processes [WORLD_SIZE, or what mpirun or srun sets, else 1]")
      .of_one_process();
  table
      .row("local-rank", s.local_rank, at_least(0),
           "Number of this process on its machine [LOCAL_RANK, or what mpirun or srun sets, else counted]")
      .of_one_process();
  table
      .row("local-world-size", s.local_world_size, at_least(1),
           "Number of processes on this machine [LOCAL_WORLD_SIZE, or what mpirun or srun sets, else counted]")
      .of_one_process();
  table
      .row("init", s.init, any_text("env://, tcp://HOST:PORT or file:///PATH"),
           "Where ranks meet [env://, which reads MASTER_ADDR and MASTER_PORT; mpirun on one machine needs neither]")
      .of_one_process();
  table
      .row("interface", s.interface, any_text("an interface's name or address"),
           "Network interface of this rank, by name or address [the one that routes to where ranks meet]")
      .of_one_process();
  table.row("backend", s.backend, one_of({"gloo", "mpi"}),
            "Library that sends gradients; mpi needs mpirun or srun [gloo]");
  table.row("bucket-cap-mb", s.bucket_cap_mb, not_negative(),
            "MiB of gradients per bucket; 0 gives each gradient a bucket of its own [25]");
  table.row("first-bucket-mb", s.first_bucket_mb, not_negative(),
            "MiB of gradients in the bucket that is reduced first [1]");
  table.row("bucket-order", s.bucket_order, one_of({"reverse", "observed"}),
            "Order in which gradients fill the buckets: reverse is from the last registered parameter to the first, "
            "observed is the order of arrival in the first update [reverse]");
  table.row("no-overlap", s.no_overlap, on_or_off(), "Send gradients after backward, not while it computes");
  table.row("find-unused-parameters", s.find_unused_parameters, on_or_off(),
            "Allow a loss that does not use all parameters, even different ones on each rank");
  table.row("static-graph", s.static_graph, on_or_off(),
            "Promise that every update uses the same parameters as the first one");
  table.row("round-robin-groups", s.round_robin_groups, between(1, 64),
            "Process groups that take turns in sending buckets [1]");
  table.row("comm-hook", s.comm_hook, one_of({"none", "bf16", "fp16"}),
            "Type to which gradients are rounded before they are sent [none]");
  table.row("check-collectives", s.check_collectives, on_or_off(),
            "Before each collective, check that all ranks are about to send the same thing");
  table.row("no-broadcast-buffers", s.no_broadcast_buffers, on_or_off(),
            "Let each rank keep its own batch-norm statistics between evaluations");
  table.row("timeout-s", s.timeout_s, between(1, 1000000), "Seconds that this rank waits for another one at most [300]")
      .is_of_one_rank = true;
}

void add_optimization(Table& table, Settings& s) {
  table.group("Optimization");
  table.row(
      "optimizer", s.optimizer, one_of(optim::optimizer_names()),
      "Update rule; lars and lamb are sgd and adamw with a rate per layer, for large batches [sgd; adamw for a BERT]");
  table.row("lr", s.lr, not_negative(), "Learning rate [0.01 for sgd, 0.1 for lars, 0.0005 for a BERT, else 0.001]");
  table.row("momentum", s.momentum, fraction(1, false), "Momentum of sgd and lars [0.9]");
  table.row("nesterov", s.nesterov, on_or_off(), "Use Nesterov's momentum (sgd)");
  table.row("weight-decay", s.weight_decay, not_negative(),
            "Weight decay [0.01 for adamw and lamb, 0.0001 for lars, else 0]");
  table.row("decay", s.decay, one_of({"all", "matrices"}),
            "Parameters that weight decay applies to, and that lars and lamb adapt; matrices leaves out norms and "
            "biases [matrices for lars, lamb and BERTs, else all]");
  table.row("clip-grad-norm", s.clip_grad_norm, above_zero(),
            "Largest norm of all gradients together; larger gradients are scaled down [none]");
  table.row("label-smoothing", s.label_smoothing, fraction(1, true),
            "Share of the target that is spread over all classes [0]");
  table.row("lr-schedule", s.lr_schedule, one_of({"constant", "linear", "cosine", "step"}),
            "How the learning rate changes: linear and cosine fall to 0 at the end, step multiplies by --lr-gamma "
            "every --lr-step-size updates [constant]");
  table.row("warmup-steps", s.warmup_steps, at_least(0), "Updates in which the rate grows linearly from 0 [0]");
  table.row("lr-steps", s.lr_steps, at_least(1),
            "Updates after which --lr-schedule linear or cosine reaches 0 [all updates of the run]");
  table.row("lr-step-size", s.lr_step_size, at_least(1), "Updates between two falls of --lr-schedule step");
  table.row("lr-gamma", s.lr_gamma, above_zero(), "Factor of each fall of --lr-schedule step [0.1]");
}

void add_computation(Table& table, Settings& s) {
  table.group("Computation");
  table.row("device", s.device, one_of({"cpu", "guarded"}),
            "Device that computes; guarded is for tests: the CPU, in memory that only kernels may touch [cpu]");
  table.row("precision", s.precision, one_of({"fp32", "bf16", "fp64"}),
            "Type of all numbers; bf16 is for activations and products, while weights stay fp32 [fp32]");
  table
      .row("recompute", s.recompute, on_or_off(),
           "Compute normalised and GELU activations again in backward instead of keeping them: less memory, a little "
           "slower, the same numbers")
      .is_of_one_rank = true;
  table
      .row("threads", s.threads, between(1, 1024),
           "Compute threads per rank [OMP_NUM_THREADS, else the machine's cores, or its CPU quota, divided by its "
           "ranks]")
      .is_of_one_rank = true;
  table.row("seed", s.seed, at_least(0),
            "Seed of all random numbers: weights, order of samples, dropout, augmentation, masks [0]");
}

void add_files(Table& table, Settings& s) {
  table.group("Weights and results");
  table.row("init-weights", s.init_weights, path("a file or folder"),
            "Weights to start from: a safetensors file with PyTorch's names, or a folder that --save-model or Hugging "
            "Face wrote; a classifier for another number of classes is initialised anew");
  table
      .row("from", s.from, path("a folder"),
           "With --eval-only: run folder (made by --out) whose settings, newest checkpoint and classes are used; other "
           "flags take precedence")
      .is_of_one_call = true;
  table.row("freeze", s.freeze, utf8_text("names of parameters or modules, in UTF-8, with commas between"),
            "Parameters that are not trained, by their names or by the names of modules, for example conv1,bn1,layer* "
            "(* is any text); batch norms among them keep their statistics");
  table.row("save-weights", s.save_weights, output("a file"),
            "File for the weights at the end, with the names of the classes");
  table.row("save-model", s.save_model, output("a folder"),
            "Folder for a BERT that from_pretrained of Hugging Face can read: config.json, model.safetensors, "
            "tokenizer.json, vocab.txt, tokenizer_config.json");
  table.row("save-grads", s.save_grads, output("a file"),
            "File for the gradients of the last update, as the optimizer got them");
  table.row("eval-only", s.eval_only, on_or_off(), "Evaluate on the test data and end");
  table.row("save-outputs", s.save_outputs, output("a file"),
            "File for the model's outputs on the test data, in their order: the logits, named output; "
            "last_hidden_state and pooler_output for a BERT that predicts tokens");
  table.group("The run");
  table
      .row("config", s.config, path("a file"),
           "JSON file of settings, by the names of flags, such as another run's config.json; flags take precedence")
      .is_of_one_call = true;
  table.row("out", s.out, output("a folder"), "Run folder, for config.json, metrics.jsonl and checkpoints/");
  table.row("overwrite", s.overwrite, on_or_off(), "Replace the run that is in --out or --checkpoint-dir")
      .of_one_process();
  table.row("metrics", s.metrics, output("a file"), "File for metrics: JSON lines, one per update and evaluation");
  table.row("profile-out", s.profile_out, output("a file"),
            "File for a profile: JSON lines that say when each gradient was ready and when each bucket was sent");
  table.row("checkpoint-dir", s.checkpoint_dir, output("a folder"), "Folder for checkpoints [checkpoints in --out]");
  table.row("checkpoint-every", s.checkpoint_every, at_least(1),
            "Updates between checkpoints [one per epoch]; there is always one at the end; the newest three are kept");
  table.row("resume", s.resume, on_or_off(), "Continue from the newest checkpoint; without one, the run begins")
      .is_of_one_call = true;
  table
      .row("summary", s.summary, on_or_off(),
           "Print layers, multiply-adds, memory and buckets, and end; nothing is trained or written")
      .is_of_one_call = true;
  table
      .row("progress", s.progress, one_of({"auto", "plain", "terminal", "none"}),
           "Progress on stdout: terminal is one line that changes, plain is a line every few seconds [auto: chosen by "
           "what stdout is]")
      .is_of_one_rank = true;
}

}  // namespace

std::vector<Setting> setting_table(Settings& settings) {
  Table table;
  add_model_and_length(table, settings);
  add_ranks(table, settings);
  add_optimization(table, settings);
  add_computation(table, settings);
  add_files(table, settings);
  return table.take();
}

std::string suggestion(const std::vector<Setting>& table, std::string_view name) {
  std::vector<std::string> names;
  for (const Setting& setting : table) names.push_back(setting.name);
  std::vector<std::string> near = near_names(name, names);
  for (std::string& flag : near) flag.insert(0, "--");
  return near.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(near, " or "));
}

}  // namespace tandem::train
