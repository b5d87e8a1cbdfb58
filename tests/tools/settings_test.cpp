// Flags and --config become settings; what is wrong is said in one line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/data/temporary_folder.h"
#include "tools/train/settings/command_line.h"
#include "tools/train/settings/narrow_options.h"
#include "tools/train/settings/setting_table.h"

namespace tandem::train {
namespace {

Settings parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "train");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data()).value();
}

std::string usage_error(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

void expect_usage_error(const std::vector<const char*>& arguments, const std::vector<std::string>& parts) {
  const std::string error = usage_error(arguments);
  for (const std::string& part : parts) EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks: " << part;
}

/// A file with `text`, as long as it lives.
class File {
 public:
  explicit File(const std::string& text)
      : path_((std::filesystem::temp_directory_path() / ("tandem-config-" + std::to_string(::getpid()) + ".json"))
                  .string()) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

TEST(Settings, defaults_follow_from_others) {
  const Settings convnet = parse({});
  EXPECT_EQ(convnet.model, "convnet");
  EXPECT_EQ(convnet.data, "fashion-mnist");
  EXPECT_EQ(convnet.epochs, 1);
  EXPECT_FALSE(convnet.steps);
  EXPECT_EQ(convnet.momentum, 0.9);
  EXPECT_FALSE(convnet.threads);  // as many as this machine's ranks leave it
  const Settings adamw = parse({"--optimizer", "adamw", "--steps", "5"});
  EXPECT_EQ(adamw.lr, 1e-3);
  EXPECT_EQ(adamw.weight_decay, 0.01);
  EXPECT_FALSE(adamw.momentum);
  EXPECT_FALSE(adamw.epochs);  // as many as 5 steps take
  EXPECT_EQ(adamw.decay, "all");
  const Settings lars = parse({"--optimizer", "lars"});
  EXPECT_EQ(lars.lr, 0.1);
  EXPECT_EQ(lars.momentum, 0.9);
  EXPECT_EQ(lars.weight_decay, 1e-4);
  EXPECT_EQ(lars.decay, "matrices");
  const Settings lamb = parse({"--optimizer", "lamb"});
  EXPECT_EQ(lamb.lr, 1e-3);
  EXPECT_FALSE(lamb.momentum);
  EXPECT_EQ(lamb.weight_decay, 0.01);
  EXPECT_EQ(lamb.decay, "matrices");
  EXPECT_EQ(parse({"--optimizer", "lamb", "--decay", "all"}).decay, "all");
  EXPECT_EQ(parse({"--decay", "matrices"}).decay, "matrices");
  EXPECT_EQ(parse({}).decay, "all");
}

TEST(Settings, the_last_of_a_flag_counts) {
  EXPECT_EQ(parse({"--epochs", "3", "--epochs", "7"}).epochs, 7);
  EXPECT_FALSE(parse({"--nesterov", "--nesterov=false"}).nesterov);
  EXPECT_EQ(parse({"--lr=0.25"}).lr, 0.25);
}

TEST(Settings, bad_values_name_flag_value_and_what_is_allowed) {
  expect_usage_error({"--model", "resnet19"}, {"--model", "'resnet19'", "mlp, mlp-large, convnet"});
  expect_usage_error({"--optimizer", "sdg"}, {"--optimizer", "'sdg'", "sgd, adam, adamw, lars, lamb"});
  expect_usage_error({"--data", "imagenet"}, {"--data", "'imagenet'", "fashion-mnist", "tensors:FILE"});
  expect_usage_error({"--data", "tensors:"}, {"--data", "'tensors:'"});
  expect_usage_error({"--device", "cuda"}, {"--device", "'cuda'", "cpu"});
  expect_usage_error({"--precision", "fp16"}, {"--precision", "'fp16'", "fp32, bf16, fp64"});
  expect_usage_error({"--progress", "yes"}, {"--progress", "'yes'", "auto, plain, terminal, none"});
  for (const char* value : {"0", "-1", "64x", "6.5", "", "99999999999999999999"})
    expect_usage_error({"--batch-size", value},
                       {"--batch-size", std::string("'") + value + "'", "a whole number >= 1"});
  for (const char* value : {"nan", "inf", "-0.1", "1e999", "fast"})
    expect_usage_error({"--lr", value}, {"--lr", std::string("'") + value + "'", "a number >= 0"});
  expect_usage_error({"--threads", "5000000000"}, {"--threads", "from 1 to 1024"});
  expect_usage_error({"--dropout", "1.5"}, {"--dropout", "'1.5'", "from 0 to 1"});
  expect_usage_error({"--momentum", "1"}, {"--momentum", "'1'", "from 0 to below 1"});
  expect_usage_error({"--clip-grad-norm", "0"}, {"--clip-grad-norm", "'0'", "a number > 0"});
  expect_usage_error({"--decay", "none"}, {"--decay", "'none'", "one of all, matrices"});
  expect_usage_error({"--nesterov=maybe"}, {"nesterov"});
  expect_usage_error({"--seed"}, {"--seed needs a value", "a whole number >= 0"});
  expect_usage_error({"--synthetic-samples", "9223372036854775807"}, {"--synthetic-samples", "to 2147483648"});
}

TEST(Settings, unknown_flags_get_a_suggestion) {
  expect_usage_error({"--batchsize", "4"}, {"unknown flag --batchsize", "did you mean --batch-size"});
  expect_usage_error({"--warmup=4"}, {"unknown flag --warmup", "--warmup-steps"});
  expect_usage_error({"--qqqqqqqq"}, {"unknown flag --qqqqqqqq (see --help)"});
  expect_usage_error({"-x"}, {"unknown flag -x (see --help)"});
  expect_usage_error({"convnet"}, {"unexpected 'convnet'"});
}

TEST(Settings, what_does_not_go_together) {
  expect_usage_error({"--data", "mnist"}, {"--data mnist needs --data-dir"});
  expect_usage_error({"--data", "synthetic", "--data-dir", "x"}, {"--data-dir", "synthetic"});
  expect_usage_error({"--synthetic-samples", "8"}, {"--synthetic-samples", "fashion-mnist"});
  expect_usage_error({"--optimizer", "adam", "--momentum", "0.5"},
                     {"--momentum is for --optimizer sgd and lars, not for adam"});
  expect_usage_error({"--optimizer", "lamb", "--momentum", "0.5"},
                     {"--momentum is for --optimizer sgd and lars, not for lamb"});
  expect_usage_error({"--optimizer", "lars", "--nesterov"}, {"--nesterov is for --optimizer sgd, not for lars"});
  expect_usage_error({"--optimizer", "adam", "--nesterov"}, {"--nesterov", "adam"});
  expect_usage_error({"--momentum", "0", "--nesterov"}, {"--nesterov needs"});
  expect_usage_error({"--lr-schedule", "step"}, {"--lr-step-size"});
  expect_usage_error({"--lr-gamma", "0.5"}, {"--lr-gamma", "constant"});
  expect_usage_error({"--checkpoint-every", "5"}, {"--checkpoint-every needs"});
  expect_usage_error({"--resume"}, {"--resume needs"});
  expect_usage_error({"--out", "x", "--resume", "--overwrite"}, {"--resume and --overwrite"});
  expect_usage_error({"--eval-only", "--save-grads", "x"}, {"--save-grads", "--eval-only"});
  expect_usage_error({"--eval-only", "--checkpoint-dir", "x"}, {"--checkpoint-dir", "--resume"});
  expect_usage_error({"--eval-only"},
                     {"--eval-only without weights would evaluate random ones: give --from, --init-weights, or "
                      "--resume with --checkpoint-dir"});
  expect_usage_error({"--lr-steps", "5"}, {"--lr-steps is for --lr-schedule linear and cosine, not for constant"});
  expect_usage_error({"--metrics", "x", "--save-weights", "./x"}, {"--metrics and --save-weights", "the same file"});
}

TEST(Settings, config_fills_in_and_flags_win) {
  const File config(R"({"batch-size": 16, "lr": 1e-2, "nesterov": true, "model": "mlp", "steps": null})");
  const Settings settings = parse({"--config", config.path(), "--batch-size", "8"});
  EXPECT_EQ(settings.batch_size, 8);
  EXPECT_EQ(settings.lr, 0.01);
  EXPECT_TRUE(settings.nesterov);
  EXPECT_EQ(settings.model, "mlp");
  EXPECT_FALSE(parse({"--config", config.path(), "--nesterov=false"}).nesterov);
}

TEST(Settings, config_errors_name_file_key_and_what_is_allowed) {
  const auto expect_config_error = [](const std::string& text, const std::vector<std::string>& parts) {
    const File config(text);
    expect_usage_error({"--config", config.path()}, {config.path()});
    expect_usage_error({"--config", config.path()}, parts);
  };
  expect_config_error(R"({"batchsize": 16})", {"unknown key \"batchsize\"", "did you mean --batch-size"});
  expect_config_error(R"({"batch_size": 16})", {"unknown key \"batch_size\"", "--batch-size"});
  expect_config_error(R"({"config": "other.json"})", {"unknown key \"config\""});
  expect_config_error(R"({"batch-size": "16"})", {"\"batch-size\"", "\"16\"", "a whole number >= 1"});
  expect_config_error(R"({"batch-size": 16.5})", {"16.5", "a whole number"});
  expect_config_error(R"({"batch-size": null})", {"null", "a whole number"});
  expect_config_error(R"({"lr": [1]})", {"\"lr\"", "[1]", "a number"});
  expect_config_error(R"({"nesterov": 1})", {"\"nesterov\"", "true or false"});
  expect_config_error(R"({"model": "vgg"})", {"\"model\"", "\"vgg\"", "mlp, mlp-large, convnet"});
  expect_config_error("batch-size: 16", {"not valid JSON"});
  expect_config_error("", {"not valid JSON"});
  expect_config_error("[1, 2]", {"needs an object"});
  expect_config_error(R"({"outputs": 1})", {"\"outputs\" needs an object"});
  expect_config_error(R"({"facts": "x"})", {"\"facts\" needs an object"});
  expect_config_error(R"({"lr": 1, "seed": 2, "lr": 3})", {"the key \"lr\" appears twice"});
  expect_config_error(R"({"lr": 1e999})", {"a number that is too large"});
  expect_config_error(R"({"out": "a\u0000b"})", {"\"out\"", "a folder"});
  expect_config_error("{\"lr\": " + std::string(100000, '[') + std::string(100000, ']') + "}",
                      {"nested more than 8 deep"});
  expect_config_error("{\"lr\": \"" + std::string(100000, 'x') + "\"}", {"xxx...\", must be a number"});
  expect_usage_error({"--config", "/nowhere/config.json"}, {"--config", "/nowhere/config.json"});
}

TEST(Settings, errors_of_a_run_name_the_flag_that_asks_for_it) {
  const data::TemporaryFolder run;
  const std::string folder = run.path().string(), file = folder + "/config.json";
  const auto error = [&](const std::string& config) {
    run.put("config.json", config);
    return usage_error({"--eval-only", "--from", folder.c_str()});
  };
  EXPECT_EQ(error(R"({"batchsize": 16})"),
            "--from " + file + ": unknown key \"batchsize\"; did you mean --batch-size?");
  EXPECT_EQ(error(R"({"lr": -1})"), "--from " + file + ": \"lr\" is -1, must be a number >= 0");
  EXPECT_EQ(error("lr: 1"), "--from " + file + ": not valid JSON at byte 1");
  EXPECT_EQ(error("[]"), "--from " + file + ": needs an object, {\"batch-size\": 64, ...}");
  EXPECT_EQ(error(R"({"lr": 1, "lr": 2})"), "--from " + file + ": the key \"lr\" appears twice");
  EXPECT_EQ(error(R"({"lr": 1e999})"), "--from " + file + ": holds a number that is too large");
}

// A path may be any bytes; other text that ends up in files may not, and is refused before there is something to lose.
TEST(Settings, text_that_is_no_utf8_is_refused_or_kept) {
  expect_usage_error({"--freeze", "conv1\xff"},
                     {"--freeze", "must be names of parameters or modules, in UTF-8, with commas between"});
  Settings settings;
  int kept = 0;
  for (const Setting& setting : setting_table(settings)) {
    if (!setting.read("imagefolder:\xff") && !setting.read("\xff")) continue;
    ++kept;
    const auto json = setting.write_json();
    EXPECT_NO_THROW(json.dump()) << setting.name;
    EXPECT_TRUE(setting.read_json(json)) << setting.name;
    EXPECT_EQ(setting.write_json(), json) << setting.name;
    EXPECT_TRUE(setting.is_of_one_rank || setting.name == "data") << setting.name << " is no path";
  }
  EXPECT_GT(kept, 10);
}

TEST(Settings, json_and_back_is_the_same) {
  const Settings settings =
      parse({"--model", "mlp", "--optimizer", "adamw", "--lr", "0.1", "--steps", "7", "--seed", "9007199254740993",
             "--label-smoothing", "0.3", "--lr-schedule", "step", "--lr-step-size", "3"});
  const auto json = to_json(settings);
  const File config(json.dump());
  EXPECT_EQ(to_json(parse({"--config", config.path()})), json);
  EXPECT_EQ(json["seed"], 9007199254740993);
  EXPECT_EQ(json["lr"], 0.1);
  EXPECT_TRUE(json["epochs"].is_null());
  EXPECT_FALSE(json.contains("overwrite"));
}

// Where one run writes is no setting of another.
TEST(Settings, outputs_of_a_config_are_taken_by_a_call_that_goes_on_with_the_run) {
  const Settings run = parse({"--model", "mlp", "--out", "a", "--metrics", "m", "--profile-out", "p", "--save-weights",
                              "w", "--save-grads", "g", "--save-outputs", "o", "--checkpoint-dir", "c"});
  const auto json = to_json(run);
  const std::vector<std::string> outputs{"save-weights", "save-grads",  "save-outputs",  "out",
                                         "metrics",      "profile-out", "checkpoint-dir"};
  EXPECT_EQ(json["outputs"].size(), outputs.size());
  for (const std::string& name : outputs) {
    EXPECT_TRUE(json["outputs"].contains(name)) << name;
    EXPECT_FALSE(json.contains(name)) << name;
  }
  const File config(json.dump());
  const auto expect_outputs = [&](const std::vector<const char*>& more, bool are_taken) {
    std::vector<const char*> arguments{"--config", config.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Settings settings = parse(arguments);
    EXPECT_EQ(settings.model, "mlp");
    EXPECT_EQ(settings.metrics, are_taken ? run.metrics : std::nullopt);
    EXPECT_EQ(settings.save_weights, are_taken ? run.save_weights : std::nullopt);
    EXPECT_EQ(settings.profile_out, are_taken ? run.profile_out : std::nullopt);
  };
  expect_outputs({}, false);
  expect_outputs({"--out", "b"}, false);
  expect_outputs({"--out", "b", "--resume"}, false);
  expect_outputs({"--out", "a", "--overwrite"}, false);
  expect_outputs({"--resume"}, true);
  expect_outputs({"--resume", "--out", "a"}, true);
  expect_outputs({"--resume", "--checkpoint-dir", "c"}, true);
  expect_outputs({"--resume", "--checkpoint-dir", "d"}, false);
  EXPECT_EQ(parse({"--config", config.path(), "--resume"}).out, "a");
  const File other(to_json(parse({"--model", "mlp", "--out", "r\xe9", "--metrics", "m"})).dump());
  EXPECT_EQ(parse({"--config", other.path(), "--resume", "--out", "r\xe9"}).metrics, "m");
}

TEST(Settings, facts_of_a_config_set_nothing) {
  const File config(R"({"model": "mlp", "facts": {"ranks": 4, "global_batch": 256, "threads": 3, "more": []}})");
  const Settings settings = parse({"--config", config.path()});
  ASSERT_TRUE(settings.config_facts);
  EXPECT_EQ(settings.config_facts->ranks, 4);
  EXPECT_EQ(settings.config_facts->global_batch, 256);
  EXPECT_FALSE(settings.threads);
  EXPECT_FALSE(parse({"--model", "mlp"}).config_facts);
  const RunFacts facts = run_facts(parse({"--batch-size", "8", "--accumulation-steps", "3"}), 2);
  EXPECT_EQ(facts.ranks, 2);
  EXPECT_EQ(facts.global_batch, 48);
}

// What follows from other settings follows from them again.
TEST(Settings, what_nobody_chose_is_no_choice_of_another_run) {
  const auto config_of = [](const std::vector<const char*>& arguments) {
    const Settings settings = parse(arguments);
    auto json = to_json(settings);
    json["facts"] = {{"derived", settings.derived}};
    return json.dump();
  };
  const File open(config_of({"--model", "mlp"}));
  const Settings same = parse({"--config", open.path()});
  EXPECT_EQ(same.lr, 0.01);
  EXPECT_EQ(same.derived, parse({"--model", "mlp"}).derived);
  EXPECT_EQ(same.derived, (std::vector<std::string>{"data", "data-dir", "decay", "epochs", "lr", "momentum",
                                                    "optimizer", "weight-decay"}));
  const Settings adam = parse({"--config", open.path(), "--optimizer", "adamw"});
  EXPECT_EQ(adam.lr, 0.001);
  EXPECT_EQ(adam.weight_decay, 0.01);
  EXPECT_FALSE(adam.momentum);
  EXPECT_EQ(parse({"--config", open.path(), "--model", "bert-tiny"}).data, "wordnet");
  EXPECT_EQ(parse({"--config", open.path(), "--lr", "0.3"}).lr, 0.3);
  EXPECT_FALSE(parse({"--config", open.path(), "--steps", "5"}).epochs);  // else it would end after the one epoch
}

TEST(Settings, what_was_chosen_is_kept_by_another_run) {
  const Settings run = parse({"--model", "mlp", "--lr", "0.05", "--momentum", "0.5"});
  auto json = to_json(run);
  json["facts"] = {{"derived", run.derived}};
  const File chosen(json.dump());
  EXPECT_EQ(parse({"--config", chosen.path(), "--model", "convnet"}).momentum, 0.5);
  EXPECT_EQ(parse({"--config", chosen.path(), "--optimizer", "lars"}).lr, 0.05);
  expect_usage_error({"--config", chosen.path(), "--optimizer", "adam"}, {"--momentum is for"});
}

// A rank that goes its own way at a checkpoint or an evaluation would leave the others in a collective.
TEST(Settings, ranks_write_in_places_of_their_own_and_do_the_same) {
  const Settings run = parse({"--out", "run", "--metrics", "m.jsonl", "--save-weights", "w.safetensors", "--steps",
                              "40", "--checkpoint-every", "5", "--eval-every", "10"});
  EXPECT_EQ(settings_of_rank(run, 0, 2).out, run.out);
  const Settings other = settings_of_rank(run, 1, 2);
  EXPECT_FALSE(other.out);
  EXPECT_FALSE(other.save_weights);
  EXPECT_EQ(other.metrics, "m.jsonl.rank1");
  const auto but_for_folder = [](std::vector<std::string> lines) {
    std::erase_if(lines, [](const std::string& line) { return line.ends_with("checkpoints"); });
    return lines;
  };
  EXPECT_EQ(but_for_folder(settings_of_run(other)), but_for_folder(settings_of_run(run)));
  EXPECT_EQ(other.checkpoint_every, 5);
}

TEST(Settings, every_setting_has_a_group_a_meaning_and_says_what_is_allowed) {
  Settings settings;
  for (const Setting& setting : setting_table(settings)) {
    EXPECT_FALSE(setting.group.empty()) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
    EXPECT_FALSE(setting.allowed.empty()) << setting.name;
    // What a field holds at first is allowed, and comes back.
    const auto before = setting.write_json();
    EXPECT_TRUE(setting.read_json(before)) << setting.name;
    EXPECT_EQ(setting.write_json(), before) << setting.name;
  }
}

}  // namespace
}  // namespace tandem::train
