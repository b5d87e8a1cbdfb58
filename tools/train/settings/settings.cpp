#include "tools/train/settings/settings.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "tandem/data/fashion_mnist.h"
#include "tandem/data/text/tokenizer_files.h"
#include "tandem/data/text/wordnet.h"
#include "tandem/optim/make_optimizer.h"
#include "tools/train/files/pretrained_folder.h"

namespace tandem::train {
namespace {

using Kinds = std::initializer_list<std::string_view>;

bool is_one_of(std::string_view kind, Kinds kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

// A flag that only some models take.
void only_for(bool given, const char* flag, bool is_for_it, const char* whom, const Settings& s) {
  if (given && !is_for_it) fail_usage("{} is for {}, not for --model {}", flag, whom, s.model);
}

// A folder of --init-weights may bring a model's description and its vocabulary.
void resolve_model(Settings& s) {
  if (s.model == "bert") {
    if (!s.model_config) s.model_config = file_in_folder(s.init_weights, kConfigFile);
    if (!s.model_config)
      fail_usage("--model bert needs --model-config: a config.json, or a folder with one as --init-weights");
  }
  only_for(s.model_config.has_value(), "--model-config", s.model == "bert", "bert", s);
  only_for(s.stem.has_value(), "--stem", is_resnet(s), "ResNets", s);
  only_for(s.classes.has_value(), "--classes", is_resnet(s) || is_bert(s), "ResNets and BERTs", s);
  only_for(s.recompute, "--recompute", is_resnet(s) || is_bert(s), "ResNets and BERTs", s);
  only_for(s.predict_all, "--predict-all", is_bert(s), "BERTs", s);
  only_for(s.save_model.has_value(), "--save-model", is_bert(s), "BERTs", s);
}

// A setting that only some data take: `fallback` where they do and it was left open.
template <class Field, class Value>
void for_data(Field& field, const char* flag, bool is_for_it, const char* whom, const Value& fallback,
              const Settings& s) {
  if (field && !is_for_it) fail_usage("{} is for --data {}, not for --data {}", flag, whom, *s.data);
  if (!field && is_for_it) field = fallback;
}

std::optional<std::string> usual_folder(const std::string& kind) {
  if (kind == "fashion-mnist") return data::kFashionMnistFolder;
  if (kind == "wordnet") return data::kWordNetFolder;
  return std::nullopt;
}

void resolve_data(Settings& s) {
  if (!s.data) s.data = is_bert(s) ? "wordnet" : "fashion-mnist";
  const std::string kind = data_name(*s.data).kind;
  const bool in_folder = is_one_of(kind, {"fashion-mnist", "mnist", "cifar10", "wordnet"});
  if (!s.data_dir) s.data_dir = usual_folder(kind);
  if (in_folder && !s.data_dir) fail_usage("--data {} needs --data-dir: the folder with its files", *s.data);
  if (!in_folder && s.data_dir)
    fail_usage("--data-dir is for fashion-mnist, mnist, cifar10 and wordnet, not for --data {}", *s.data);
  for_data(s.synthetic_samples, "--synthetic-samples", kind == "synthetic", "synthetic", 4096, s);
}

void resolve_images(Settings& s) {
  const std::string kind = data_name(*s.data).kind;
  if (is_bert(s) && is_one_of(kind, {"fashion-mnist", "mnist", "cifar10", "imagefolder"}))
    fail_usage("--model {} reads text, --data {} are images", s.model, *s.data);
  for_data(s.image_size, "--image-size", kind == "imagefolder" || (kind == "synthetic" && is_resnet(s)),
           "imagefolder, and synthetic with a ResNet", 224, s);
  if (s.val_fraction && kind != "imagefolder")
    fail_usage("--val-fraction is for --data imagefolder, not for --data {}", *s.data);
  if (s.skip_bad_images && kind != "imagefolder")
    fail_usage("--skip-bad-images is for --data imagefolder, not for --data {}", *s.data);
  // Data of one size only, 28 or 32 pixels, have no --image-size; of tensors it is not known yet (tasks/make_task.h).
  if (is_resnet(s) && !s.stem && kind != "tensors") s.stem = usual_stem(s.image_size.value_or(28));
}

// Its words are what rows of the embeddings mean: others would make them nonsense.
std::optional<std::string> vocabulary_of_weights(const std::string& weights) {
  if (!file_in_folder(weights, kWeightsFile)) return std::nullopt;
  const auto file = data::tokenizer_in_folder(weights);
  if (!file)
    fail_usage("--init-weights {}: has neither {} nor {}, so which words its embeddings are is not known; give --vocab",
               weights, data::kTokenizerFile, data::kVocabularyFile);
  return file->string();
}

void resolve_text(Settings& s) {
  const std::string kind = data_name(*s.data).kind;
  const bool is_corpus = is_one_of(kind, {"text", "wordnet"});
  if (!is_bert(s) && is_corpus) fail_usage("--model {} reads images, --data {} is text", s.model, *s.data);
  const bool is_sampled = is_corpus || (kind == "synthetic" && is_bert(s));
  for_data(s.seq_length, "--seq-length", is_sampled, "text, wordnet, and synthetic with a BERT", 128, s);
  if (s.sentence_pairs && !is_sampled)
    fail_usage("--sentence-pairs is for --data text, wordnet, and synthetic with a BERT, not for --data {}", *s.data);
  const std::int64_t least = s.sentence_pairs ? 5 : 3;  // the special tokens, and one or two others
  if (is_sampled && *s.seq_length < least)
    fail_usage("--seq-length {} has no room for text{}, needed {} or more", *s.seq_length,
               s.sentence_pairs ? " in pairs" : "", least);
  if (is_corpus && !s.vocab && s.init_weights) s.vocab = vocabulary_of_weights(*s.init_weights);
  if (is_corpus && s.vocab) s.cased = !data::load_tokenizer(*s.vocab, s.cased).words.lower_case;
  if (s.vocab && !is_corpus) fail_usage("--vocab is for --data text and wordnet, not for --data {}", *s.data);
  if (s.eval_data && !is_corpus) fail_usage("--eval-data is for --data text and wordnet, not for --data {}", *s.data);
  if (s.cased && !is_corpus) fail_usage("--cased is for --data text and wordnet, not for --data {}", *s.data);
}

struct OptimizerDefaults {
  double lr, weight_decay;
  const char* decay;
};

OptimizerDefaults optimizer_defaults(const std::string& optimizer) {
  if (optimizer == "adam") return {.lr = 0.001, .weight_decay = 0, .decay = "all"};
  if (optimizer == "adamw") return {.lr = 0.001, .weight_decay = 0.01, .decay = "all"};
  if (optimizer == "lars") return {.lr = 0.1, .weight_decay = 1e-4, .decay = "matrices"};
  if (optimizer == "lamb") return {.lr = 0.001, .weight_decay = 0.01, .decay = "matrices"};
  return {.lr = 0.01, .weight_decay = 0, .decay = "all"};
}

void resolve_optimizer(Settings& s) {
  if (!s.optimizer) s.optimizer = is_bert(s) ? "adamw" : "sgd";
  const OptimizerDefaults defaults = optimizer_defaults(*s.optimizer);
  const bool is_adaptive = !optim::has_momentum(*s.optimizer);
  if (!s.lr) s.lr = is_bert(s) && is_adaptive ? 0.0005 : defaults.lr;
  if (!s.weight_decay) s.weight_decay = defaults.weight_decay;
  if (!s.decay) s.decay = is_bert(s) ? "matrices" : defaults.decay;
  if (!is_adaptive) {
    if (!s.momentum) s.momentum = 0.9;
    if (s.nesterov && *s.momentum == 0) fail_usage("--nesterov needs a --momentum above 0");
  } else if (s.momentum) {
    fail_usage("--momentum is for --optimizer sgd and lars, not for {}", *s.optimizer);
  }
  if (s.nesterov && *s.optimizer != "sgd") fail_usage("--nesterov is for --optimizer sgd, not for {}", *s.optimizer);
}

void resolve_schedule(Settings& s) {
  if (s.lr_steps && s.lr_schedule != "linear" && s.lr_schedule != "cosine")
    fail_usage("--lr-steps is for --lr-schedule linear and cosine, not for {}", s.lr_schedule);
  if (s.lr_schedule == "step") {
    if (!s.lr_step_size) fail_usage("--lr-schedule step needs --lr-step-size: the updates after which the rate falls");
    if (!s.lr_gamma) s.lr_gamma = 0.1;
  } else {
    if (s.lr_step_size) fail_usage("--lr-step-size is for --lr-schedule step, not for {}", s.lr_schedule);
    if (s.lr_gamma) fail_usage("--lr-gamma is for --lr-schedule step, not for {}", s.lr_schedule);
  }
}

void check_checkpoints(const Settings& s) {
  const bool has_folder = checkpoint_folder(s).has_value();
  if (s.checkpoint_every && !has_folder) fail_usage("--checkpoint-every needs --checkpoint-dir or --out");
  if (s.resume && !has_folder) fail_usage("--resume needs --checkpoint-dir or --out: where the checkpoints are");
  if (s.resume && s.overwrite) fail_usage("--resume and --overwrite exclude each other: continue a run, or replace it");
}

/// Files that a run writes, by the flag that asks for them.
std::vector<std::pair<const char*, std::string>> files_of(const Settings& s) {
  std::vector<std::pair<const char*, std::string>> files;
  const auto add = [&](const char* flag, const std::optional<std::string>& file) {
    if (file) files.emplace_back(flag, *file);
  };
  add("--metrics", s.metrics);
  add("--profile-out", s.profile_out);
  add("--save-weights", s.save_weights);
  add("--save-grads", s.save_grads);
  add("--save-outputs", s.save_outputs);
  if (s.save_model)
    for (const char* name :
         {kConfigFile, kWeightsFile, data::kVocabularyFile, data::kTokenizerFile, data::kTokenizerConfigFile})
      files.emplace_back("--save-model", *s.save_model + "/" + name);
  if (s.out)
    for (const char* name : {"config.json", "metrics.jsonl"}) files.emplace_back("--out", *s.out + "/" + name);
  return files;
}

// Each would replace what the other wrote.
void check_results(const Settings& s) {
  std::map<std::filesystem::path, const char*> taken;
  for (const auto& [flag, file] : files_of(s)) {
    const auto [found, is_new] = taken.emplace(std::filesystem::path(file).lexically_normal(), flag);
    if (!is_new) fail_usage("{} and {} name the same file, {}", found->second, flag, file);
  }
}

void check_from(const Settings& s) {
  if (!s.from) return;
  if (!s.eval_only)
    fail_usage("--from needs --eval-only; to train on: --config {0}/config.json with --resume, or with --init-weights",
               *s.from);
  if (s.init_weights || s.resume || s.checkpoint_dir)
    fail_usage("--from takes the run's own weights: leave out --init-weights, --resume and --checkpoint-dir");
  std::error_code error;
  if (s.out && std::filesystem::equivalent(*s.out, *s.from, error))
    fail_usage("--out and --from are the same folder, {}: an evaluation does not write into the run that it evaluates",
               *s.out);
}

void check_eval_only(const Settings& s) {
  if (!s.eval_only) return;
  if (s.save_grads) fail_usage("--save-grads needs training, which --eval-only leaves out");
  if (s.checkpoint_every) fail_usage("--checkpoint-every needs training, which --eval-only leaves out");
  if (s.checkpoint_dir && !s.resume) fail_usage("--eval-only takes the weights of --checkpoint-dir only with --resume");
  if (!s.init_weights && !s.resume && !s.from)
    fail_usage(
        "--eval-only without weights would evaluate random ones: give --from, --init-weights, or --resume "
        "with --checkpoint-dir");
  if (s.resume && s.out)
    fail_usage(
        "--eval-only --resume takes the checkpoints of --checkpoint-dir; with --out it would write into the run's "
        "folder");
}

}  // namespace

DataName data_name(const std::string& data) {
  const std::size_t colon = data.find(':');
  if (colon == data.npos) return {.kind = data, .place = ""};
  return {.kind = data.substr(0, colon), .place = data.substr(colon + 1)};
}

bool is_bert(const Settings& settings) { return settings.model.starts_with("bert"); }

bool is_resnet(const Settings& settings) { return settings.model.starts_with("resnet"); }

RunFacts run_facts(const Settings& settings, int ranks) {
  RunFacts facts{.ranks = ranks, .global_batch = settings.batch_size};
  for (const std::int64_t factor : {std::int64_t{ranks}, settings.accumulation_steps})
    if (__builtin_mul_overflow(facts.global_batch, factor, &facts.global_batch))
      fail_usage("--batch-size {} on {} ranks with --accumulation-steps {} is more than can be counted",
                 settings.batch_size, ranks, settings.accumulation_steps);
  return facts;
}

std::optional<std::string> checkpoint_folder(const Settings& settings) {
  if (settings.checkpoint_dir || !settings.out) return settings.checkpoint_dir;
  return *settings.out + "/checkpoints";
}

void resolve(Settings& settings) {
  resolve_model(settings);
  resolve_data(settings);
  resolve_images(settings);
  resolve_text(settings);
  if (!settings.epochs && !settings.steps) settings.epochs = 1;
  resolve_optimizer(settings);
  resolve_schedule(settings);
  check_checkpoints(settings);
  check_eval_only(settings);
  check_from(settings);
  check_results(settings);
}

}  // namespace tandem::train
