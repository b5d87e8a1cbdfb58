// The scripts of tools/: --help only helps, and a wrong argument is an error before anything is done.
#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

class Scripts : public TrainTest {
 protected:
  Scripts() {
    // What a script must not reach: each leaves a trace.
    fs::create_directory(folder_ / "bin");
    for (const char* name : {"apt-get", "dpkg-query", "sudo", "cmake", "ctest"}) {
      const fs::path program = folder_ / "bin" / name;
      std::ofstream(program) << "#!/bin/sh\necho \"$0 $*\" >>'" << path("reached") << "'\nexit 1\n";
      fs::permissions(program, fs::perms::owner_all);
    }
  }

  static std::vector<fs::path> scripts() {
    const fs::path root = TANDEM_SOURCE_DIR;
    std::vector<fs::path> found{root / ".ci/run"};
    for (const auto& entry : fs::directory_iterator(root / "tools"))
      if (entry.is_regular_file() && (entry.status().permissions() & fs::perms::owner_exec) != fs::perms::none)
        found.push_back(entry.path());
    return found;
  }

  Outcome run(const fs::path& script, const std::string& arguments) const {
    return shell("PYTHONDONTWRITEBYTECODE=1 PATH='" + path("bin") + "':\"$PATH\" timeout 60 '" + script.string() +
                 "' " + arguments + " </dev/null");
  }
};

TEST_F(Scripts, help_only_helps) {
  EXPECT_GT(scripts().size(), 10u);
  for (const fs::path& script : scripts()) {
    const Outcome outcome = run(script, "--help");
    EXPECT_EQ(outcome.code, 0) << script << "\n" << outcome.errors;
    EXPECT_NE(outcome.output.find(script.filename().string()), std::string::npos) << script << "\n" << outcome.output;
    EXPECT_EQ(read_text(folder_ / "reached"), "") << script;
  }
}

TEST_F(Scripts, wrong_arguments_are_errors) {
  for (const fs::path& script : scripts()) {
    const Outcome outcome = run(script, "nonsense --no-such-flag");
    EXPECT_EQ(outcome.code, 2) << script << "\n" << outcome.output << outcome.errors;
    EXPECT_NE(outcome.last_error, "") << script;
    EXPECT_EQ(read_text(folder_ / "reached"), "") << script;
  }
}

// Those of train, before minutes of building; with them it goes on to what it installs first.
TEST_F(Scripts, quickstart_knows_all_flags_of_train_and_no_others) {
  const fs::path quickstart = fs::path(TANDEM_SOURCE_DIR) / "tools/quickstart";
  const Outcome wrong = run(quickstart, "--epochs 1 --batchsize=4");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.errors,
            "quickstart: error: unknown flag --batchsize: only flags of train are allowed, such as --epochs 1 (see "
            "--help)\n");
  EXPECT_EQ(read_text(folder_ / "reached"), "");
  std::string all;
  std::istringstream words(train_well("--help").output);
  for (std::string word; words >> word;)
    if (word.starts_with("--") && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == word.npos &&
        word != "--help")
      all += word + " ";
  EXPECT_NE(all.find("--skip-bad-images"), all.npos) << all;
  const Outcome right = run(quickstart, all);
  EXPECT_EQ(right.errors.find("unknown flag"), std::string::npos) << right.errors;
  EXPECT_NE(read_text(folder_ / "reached"), "");
}

}  // namespace
}  // namespace tandem::train
