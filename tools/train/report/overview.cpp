#include "tools/train/report/overview.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tandem/core/ops/mixed_precision.h"
#include "tandem/train/format.h"

namespace tandem::train {
namespace {

void row(const char* name, const std::string& text) { fmt::print("  {:<11} {}\n", name, text); }

std::string describe_model(const Settings& settings, const InitialState& begun) {
  std::int64_t parameters = 0, frozen = 0;
  for (const nn::Variable& parameter : begun.state.model().parameters()) {
    parameters += parameter.data().numel();
    if (!parameter.requires_grad()) frozen += parameter.data().numel();
  }
  std::string text = fmt::format("{}, {} parameters", settings.model, with_commas(parameters));
  if (frozen > 0) text += fmt::format(" ({} frozen)", with_commas(frozen));
  if (settings.dropout) text += fmt::format(", dropout {}", *settings.dropout);
  if (!begun.weights_from.empty()) text += ", weights from " + begun.weights_from;
  if (settings.init_weights) text += fmt::format(", weights from {}", *settings.init_weights);
  return text;
}

std::string describe_data(const Settings& settings, const DataSource& data) {
  return fmt::format("{}{}, {}", *settings.data, settings.data_dir ? " in " + *settings.data_dir : "", data.describe());
}

std::string describe_length(const Settings& settings, int ranks, const Length& length) {
  std::string text = fmt::format("{} of {}{} samples", with_commas(length.total_steps),
                                 ranks > 1 ? fmt::format("{} x ", ranks) : "", settings.batch_size);
  if (settings.accumulation_steps > 1) text += fmt::format(" x {} micro-steps", settings.accumulation_steps);
  return text + fmt::format(", {} an epoch", with_commas(length.steps_per_epoch));
}

// A configuration does not say how many ranks there are, and with them the batch of an update changes.
std::string compare_batches(const RunFacts& then, const RunFacts& now) {
  const auto describe = [](const RunFacts& run) {
    return fmt::format("{} samples an update on {} {}", with_commas(run.global_batch), run.ranks,
                       run.ranks == 1 ? "rank" : "ranks");
  };
  return fmt::format("{}; the run of --config had {}{}", describe(now), describe(then),
                     now.global_batch == then.global_batch ? "" : " (--batch-size, --accumulation-steps)");
}

std::string describe_optimizer(const Settings& settings) {
  std::string text = fmt::format("{}, lr {} {}", *settings.optimizer, *settings.lr, settings.lr_schedule);
  if (settings.lr_schedule == "step")
    text += fmt::format(" (x {} every {} steps)", *settings.lr_gamma, *settings.lr_step_size);
  if (settings.lr_steps) text += fmt::format(" over {} steps", with_commas(*settings.lr_steps));
  if (settings.warmup_steps > 0) text += fmt::format(", {} warm-up steps", settings.warmup_steps);
  if (settings.momentum)
    text += fmt::format(", {}momentum {}", settings.nesterov ? "Nesterov " : "", *settings.momentum);
  text += fmt::format(", weight decay {}{}", *settings.weight_decay,
                      *settings.decay == "matrices" ? " of matrices only" : "");
  if (settings.clip_grad_norm) text += fmt::format(", gradients clipped at norm {}", *settings.clip_grad_norm);
  if (settings.label_smoothing > 0) text += fmt::format(", label smoothing {}", settings.label_smoothing);
  return text;
}

std::string describe_precision(const Settings& settings) {
  if (settings.precision != "bf16" || core::cpu::has_bfloat16_products()) return settings.precision;
  return "bf16 (this processor multiplies in float32 only: fp32 is faster)";
}

// Tokens that no text becomes.
bool lower_cases_capitals(const data::TokenizerFile& tokenizer) {
  if (!tokenizer.words.lower_case) return false;
  std::int64_t capitals = 0;
  for (std::int64_t number = 0; number < tokenizer.vocabulary.size(); ++number) {
    const std::string& token = tokenizer.vocabulary.token(number);
    const bool is_special = token.starts_with('[');
    capitals += !is_special && std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  }
  return capitals > tokenizer.vocabulary.size() / 20;
}

// A small text makes few samples, since they are packed: an epoch is over in no time, or an evaluation says little.
void warn_of_few_samples(const Settings& settings, int ranks, const DataSource& data) {
  constexpr std::int64_t kFewUpdates = 10, kFewTests = 20;
  const std::int64_t samples = data.train->size(), batch = settings.batch_size * ranks;
  if (!settings.eval_only && samples / kFewUpdates < batch)
    row("few",
        fmt::format("{} training samples, {} of them a step: a smaller --batch-size or --seq-length makes more steps "
                    "of an epoch",
                    with_commas(samples), with_commas(std::min(batch, samples))));
  if (data.test->size() < kFewTests)
    row("few", fmt::format("{} test samples: their loss says little; --eval-data takes a text of its own",
                           with_commas(data.test->size())));
}

}  // namespace

void print_overview(const Settings& settings, const Ranks& ranks, const DataSource& data, const Length& length,
                    const InitialState& begun, const std::optional<Resumed>& resumed) {
  fmt::print("train\n");
  row("model", describe_model(settings, begun));
  if (!begun.left_out.empty()) row("weights", "not all: " + begun.left_out);
  if (data.tokenizer && lower_cases_capitals(*data.tokenizer))
    row("vocabulary", "has capitals, but text is lower-cased: give --cased if it was made with capitals");
  row("data", describe_data(settings, data));
  for (const std::string& note : data.notes) row("", note);
  if (data.tokenizer) warn_of_few_samples(settings, ranks.size(), data);
  if (settings.eval_only) {
    row("mode", "evaluation only");
  } else {
    row("steps", describe_length(settings, ranks.size(), length));
    if (settings.config_facts && settings.config_facts->ranks != ranks.size())
      row("batch", compare_batches(*settings.config_facts, run_facts(settings, ranks.size())));
    row("optimizer", describe_optimizer(settings));
  }
  row("ranks", ranks.describe());
  row("compute", fmt::format("{}, {}, {} {} a rank, seed {}{}", settings.device, describe_precision(settings),
                             *settings.threads, *settings.threads == 1 ? "thread" : "threads", settings.seed,
                             settings.recompute ? ", activations computed again in backward" : ""));
  if (settings.out) row("out", *settings.out);
  if (settings.metrics) row("metrics", *settings.metrics);
  if (const auto folder = checkpoint_folder(settings); folder && !settings.eval_only) row("checkpoints", *folder);
  if (resumed) {
    for (const std::string& error : resumed->damaged) row("passed over", error);
    row("resumed", fmt::format("after step {}, from {}", with_commas(begun.state.step()), resumed->checkpoint.string()));
    if (!resumed->changed.empty()) row("changed", fmt::format("{}", fmt::join(resumed->changed, "; ")));
  } else if (settings.resume) {
    row("resumed", "from the beginning: there is no checkpoint yet");
  }
  std::fflush(stdout);
}

}  // namespace tandem::train
