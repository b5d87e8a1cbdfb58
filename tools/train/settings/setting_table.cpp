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
  return {fmt::format("a whole number, at least {}", low), [low](std::int64_t value) { return value >= low; }};
}
Allowed<std::int64_t> between(std::int64_t low, std::int64_t high) {
  return {fmt::format("a whole number from {} to {}", low, high),
          [=](std::int64_t value) { return value >= low && value <= high; }};
}
Allowed<double> above_zero() {
  return {"a number above 0", [](double value) { return value > 0; }};
}
Allowed<double> not_negative() {
  return {"a number, at least 0", [](double value) { return value >= 0; }};
}
/// [0, high], or without `high` itself.
Allowed<double> fraction(double high, bool closed) {
  return {fmt::format("a number from 0 to {}{}", closed ? "" : "below ", high),
          [=](double value) { return value >= 0 && (closed ? value <= high : value < high); }};
}
/// (0, 1)
Allowed<double> fraction_within() {
  return {"a number above 0 and below 1", [](double value) { return value > 0 && value < 1; }};
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
  table.row("model", s.model, one_of(all_models()), "What is trained [convnet]; bert: as --model-config says");
  table.row("model-config", s.model_config, path("a file"), "Of --model bert: a config.json as Hugging Face has them");
  table.row("dropout", s.dropout, fraction(1, true), "Overrides every dropout rate of the model");
  table.row("stem", s.stem, one_of({"imagenet", "small"}),
            "How a ResNet begins: imagenet: 7x7 by 2 and a pool, small: 3x3 [by the images' size]");
  table.row("classes", s.classes, between(1, 1 << 20), "Of a ResNet or BERT that classifies [the data's]");
  table.row("predict-all", s.predict_all, on_or_off(), "BERT's head on all positions, not on the masked ones alone");
  table.row(
      "data", s.data, data_or_place(),
      "What it is trained on [fashion-mnist; of a BERT wordnet]; text: a sentence a line; tensors: safetensors with "
      "input and target, or input_ids and labels, in file order");
  table.row("data-dir", s.data_dir, path("a folder"),
            "Where fashion-mnist, wordnet [Debian's packages], mnist or cifar10 lies");
  table.row("data-threads", s.data_threads, between(1, 1024), "Threads of a rank that read and decode samples [1]")
      .is_of_one_rank = true;
  table.row("synthetic-samples", s.synthetic_samples, between(1, std::int64_t{1} << 31),
            "Training samples of --data synthetic [4096]");
  table.row("image-size", s.image_size, between(1, 4096),
            "Height and width of images from imagefolder or synthetic [224]");
  table.row("val-fraction", s.val_fraction, fraction_within(),
            "Part of the images that is held out to evaluate on, if --data imagefolder has neither val nor test [0.1]");
  table.row(
      "skip-bad-images", s.skip_bad_images, on_or_off(),
      "Decode every image of --data imagefolder once before training; leave out those that cannot be, and count them");
  table.row("seq-length", s.seq_length, between(2, 1 << 20), "Tokens of a sample of text [128]");
  table.row("vocab", s.vocab, path("a file"),
            "BERT's words: vocab.txt or tokenizer.json [of a folder as --init-weights; else learned from the text]");
  table.row(
      "eval-data", s.eval_data, path("a file"),
      "Text to evaluate on, a sentence a line; all of --data is for training then [each 50th document of --data]");
  table.row("cased", s.cased, on_or_off(), "The vocabulary tells upper from lower case, and accents");
  table.row("sentence-pairs", s.sentence_pairs, on_or_off(),
            "Samples are two sentences; BERT also tells whether the second follows the first");
  table.group("Length");
  table.row("batch-size", s.batch_size, at_least(1), "Samples of a micro-step [64]");
  table.row("accumulation-steps", s.accumulation_steps, between(1, 1 << 16), "Micro-steps of an update [1]");
  table.row("epochs", s.epochs, at_least(1), "Passes over the data [1, without --steps]");
  table.row("steps", s.steps, at_least(1),
            "Updates, over as many epochs as needed; with --epochs: whichever is reached first");
  table.row("eval-every", s.eval_every, at_least(0),
            "Updates between evaluations, 0: none at all [each epoch]; one at the end");
}

void add_ranks(Table& table, Settings& s) {
  table.group("Ranks");
  table.row("rank", s.rank, at_least(0), "Number of this process [RANK, or what mpirun and srun set, else 0]")
      .of_one_process();
  table.row("world-size", s.world_size, at_least(1), "Number of processes [WORLD_SIZE, ..., else 1]").of_one_process();
  table.row("local-rank", s.local_rank, at_least(0), "Number of this process on its machine [LOCAL_RANK, ..., counted]")
      .of_one_process();
  table
      .row("local-world-size", s.local_world_size, at_least(1),
           "Processes on this machine [LOCAL_WORLD_SIZE, ..., counted]")
      .of_one_process();
  table
      .row("init", s.init, any_text("env://, tcp://HOST:PORT or file:///PATH"),
           "Where ranks meet [env://: MASTER_ADDR and MASTER_PORT; mpirun on one machine needs neither]")
      .of_one_process();
  table
      .row("interface", s.interface, any_text("an interface's name or address"),
           "Of this rank [the one that routes to where ranks meet]")
      .of_one_process();
  table.row("backend", s.backend, one_of({"gloo", "mpi"}),
            "What gradients travel through [gloo]; mpi: to be started by mpirun or srun");
  table.row("bucket-cap-mb", s.bucket_cap_mb, not_negative(),
            "MiB of gradients that travel together, 0: each alone [25]");
  table.row("first-bucket-mb", s.first_bucket_mb, not_negative(), "The same for the bucket that is reduced first [1]");
  table.row("bucket-order", s.bucket_order, one_of({"reverse", "observed"}),
            "How parameters fill buckets [reverse]: last registered first, or as they arrived in the first update");
  table.row("no-overlap", s.no_overlap, on_or_off(), "Send gradients after backward, not while it computes");
  table.row("find-unused-parameters", s.find_unused_parameters, on_or_off(),
            "Let the loss leave out parameters, other ones on each rank");
  table.row("static-graph", s.static_graph, on_or_off(), "All updates use the parameters that the first one used");
  table.row("round-robin-groups", s.round_robin_groups, between(1, 64), "Process groups that take turns [1]");
  table.row("comm-hook", s.comm_hook, one_of({"none", "bf16", "fp16"}),
            "What gradients are rounded to on the wire [none]");
  table.row("check-collectives", s.check_collectives, on_or_off(),
            "Compare what ranks are about to send before each collective");
  table.row("no-broadcast-buffers", s.no_broadcast_buffers, on_or_off(),
            "Leave each rank its own batch-norm statistics between evaluations");
  table.row("timeout-s", s.timeout_s, between(1, 1000000), "Seconds that any wait on another rank may take [300]")
      .is_of_one_rank = true;
}

void add_optimization(Table& table, Settings& s) {
  table.group("Optimization");
  table.row("optimizer", s.optimizer, one_of(optim::optimizer_names()),
            "Update rule [sgd; of a BERT adamw]; lars, lamb: sgd and adamw with a rate of its own for each layer, for "
            "large batches");
  table.row("lr", s.lr, not_negative(), "Learning rate [sgd: 0.01; lars: 0.1; of a BERT 0.0005; else 0.001]");
  table.row("momentum", s.momentum, fraction(1, false), "Of sgd and lars [0.9]");
  table.row("nesterov", s.nesterov, on_or_off(), "Nesterov's momentum, of sgd");
  table.row("weight-decay", s.weight_decay, not_negative(),
            "Pull towards zero [adamw, lamb: 0.01; lars: 0.0001; else 0]");
  table.row(
      "decay", s.decay, one_of({"all", "matrices"}),
      "What it pulls on, and what lars and lamb adapt to [all; lars, lamb, BERTs: matrices, not norms and biases]");
  table.row("clip-grad-norm", s.clip_grad_norm, above_zero(), "Largest norm of all gradients together [none]");
  table.row("label-smoothing", s.label_smoothing, fraction(1, true), "Share of the target spread over all classes [0]");
  table.row("lr-schedule", s.lr_schedule, one_of({"constant", "linear", "cosine", "step"}),
            "How the rate changes [constant]: linear, cosine: to 0 at the end, step: times gamma every step size");
  table.row("warmup-steps", s.warmup_steps, at_least(0), "Updates in which the rate grows linearly [0]");
  table.row("lr-steps", s.lr_steps, at_least(1),
            "Updates after which --lr-schedule linear or cosine reaches 0 [all of the run's]");
  table.row("lr-step-size", s.lr_step_size, at_least(1), "Updates between two falls of --lr-schedule step");
  table.row("lr-gamma", s.lr_gamma, above_zero(), "Factor of each fall of --lr-schedule step [0.1]");
}

void add_computation(Table& table, Settings& s) {
  table.group("Computation");
  table.row("device", s.device, one_of({"cpu", "guarded"}),
            "Where it is computed; guarded is for tests: memory that only kernels may touch [cpu]");
  table.row("precision", s.precision, one_of({"fp32", "bf16", "fp64"}),
            "Of all arithmetic [fp32]; bf16: of activations and products, weights stay fp32");
  table
      .row("recompute", s.recompute, on_or_off(),
           "Compute normalised and GELU activations again in backward instead of keeping them: less memory, a little "
           "slower, the same numbers")
      .is_of_one_rank = true;
  table
      .row("threads", s.threads, between(1, 1024),
           "Compute threads of a rank [OMP_NUM_THREADS, else cores or CPU quota / ranks of this machine]")
      .is_of_one_rank = true;
  table.row("seed", s.seed, at_least(0),
            "Of all that is drawn: weights, order of samples, dropout, augmentation, masks [0]");
}

void add_files(Table& table, Settings& s) {
  table.group("Weights and results");
  table.row(
      "init-weights", s.init_weights, path("a file or folder"),
      "Weights to begin with: safetensors with PyTorch's names, or a folder that --save-model or Hugging Face wrote; a "
      "classifier for another number of classes is begun anew");
  table
      .row("from", s.from, path("a folder"),
           "With --eval-only: settings, newest checkpoint and classes of the run in this folder, which --out made; "
           "other "
           "flags win")
      .is_of_one_call = true;
  table.row("freeze", s.freeze, utf8_text("names of parameters or modules, in UTF-8, with commas between"),
            "Parameters that are not trained, by their names or their modules', e.g. conv1,bn1,layer* (* is any text); "
            "batch norms among them keep their statistics");
  table.row("save-weights", s.save_weights, output("a file"), "Weights at the end, with the names of the classes");
  table.row(
      "save-model", s.save_model, output("a folder"),
      "A BERT as Hugging Face's from_pretrained takes it: config.json, model.safetensors, tokenizer.json, vocab.txt, "
      "tokenizer_config.json");
  table.row("save-grads", s.save_grads, output("a file"), "Gradients of the last update, as the optimizer got them");
  table.row("eval-only", s.eval_only, on_or_off(), "Only evaluate, on the test data");
  table.row("save-outputs", s.save_outputs, output("a file"),
            "For the test data, in its order: output, the logits; of a BERT that predicts tokens last_hidden_state and "
            "pooler_output");
  table.group("The run");
  table
      .row("config", s.config, path("a file"),
           "Settings by their flags' names, in JSON, such as another run's config.json; flags win")
      .is_of_one_call = true;
  table.row("out", s.out, output("a folder"), "Run folder: config.json, metrics.jsonl, checkpoints/");
  table.row("overwrite", s.overwrite, on_or_off(), "Replace the run that is in --out or --checkpoint-dir")
      .of_one_process();
  table.row("metrics", s.metrics, output("a file"), "JSON lines: one for each update and evaluation");
  table.row("profile-out", s.profile_out, output("a file"),
            "JSON lines: when each gradient was ready, and when each bucket was on its way");
  table.row("checkpoint-dir", s.checkpoint_dir, output("a folder"),
            "Where checkpoints are kept [checkpoints in --out]");
  table.row("checkpoint-every", s.checkpoint_every, at_least(1),
            "Updates between checkpoints [each epoch]; one at the end; the newest three are kept");
  table.row("resume", s.resume, on_or_off(), "Continue from the newest checkpoint, where there is one").is_of_one_call =
      true;
  table
      .row("summary", s.summary, on_or_off(),
           "Only print layers, multiply-adds, memory and buckets; nothing is trained or written")
      .is_of_one_call = true;
  table
      .row("progress", s.progress, one_of({"auto", "plain", "terminal", "none"}),
           "terminal: one line that changes, plain: a line every few seconds [auto: by what stdout is]")
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
