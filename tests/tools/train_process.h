// Runs the program `train` as a user does, in a folder of its own, and looks at what it leaves.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tandem/core/files/safetensors.h"
#include "tandem/core/ops/random_fill.h"

namespace tandem::train {

namespace fs = std::filesystem;

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Outcome {
  int code = -1;
  std::string output;      ///< stdout
  std::string errors;      ///< stderr
  std::string last_error;  ///< its last line
};

class TrainTest : public ::testing::Test {
 protected:
  TrainTest() {
    std::string name = (fs::temp_directory_path() / "tandem-train-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  // Open MPI's daemon takes its own files away from there when the ranks have ended.
  ~TrainTest() override {
    std::error_code error;
    for (int tries = 0; tries < 250 && (fs::remove_all(folder_, error), error); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// `arguments` as in a shell, with the test's own folder as the current one.
  Outcome train(const std::string& arguments) const { return shell("'" TANDEM_TRAIN "' " + arguments); }

  /// Any command, in the test's own folder.
  Outcome shell(const std::string& commands) const {
    const fs::path out = fs::path(folder_.string() + ".out"), err = fs::path(folder_.string() + ".err");
    const std::string command =
        "cd '" + folder_.string() + "' && { " + commands + "; } >'" + out.string() + "' 2>'" + err.string() + "'";
    const int status = std::system(command.c_str());
    Outcome outcome{.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                    .output = read_text(out),
                    .errors = read_text(err),
                    .last_error = {}};
    fs::remove(out);
    fs::remove(err);
    std::istringstream lines(outcome.errors);
    for (std::string line; std::getline(lines, line);) outcome.last_error = line;
    return outcome;
  }

  /// The same, expected to succeed.
  Outcome train_well(const std::string& arguments) const {
    Outcome outcome = train(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.output << outcome.errors;
    return outcome;
  }

  /// Expected to end with `code` and one line that holds `cause`, and to leave the folder as it was.
  void expect_failure(const std::string& arguments, int code, const std::string& cause) const {
    const auto before = listing();
    const Outcome outcome = train(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.errors;
    EXPECT_TRUE(outcome.last_error.starts_with("train: error: ")) << outcome.errors;
    EXPECT_NE(outcome.last_error.find(cause), std::string::npos) << arguments << "\n" << outcome.errors;
    EXPECT_EQ(outcome.errors, outcome.last_error + "\n") << arguments;
    EXPECT_EQ(listing(), before) << arguments;
  }

  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) names.push_back(entry.path().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  std::vector<nlohmann::json> metrics(const std::string& name) const {
    std::vector<nlohmann::json> all;
    std::istringstream lines(read_text(folder_ / name));
    for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }

  /// Of the updates' lines.
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> all;
    for (const auto& line : metrics(name))
      if (line.contains("loss")) all.push_back(line["loss"]);
    return all;
  }

  /// Lines that a run which still goes on has written.
  std::int64_t lines_so_far(const std::string& name) const {
    const std::string text = read_text(folder_ / name);
    return std::count(text.begin(), text.end(), '\n');
  }

  std::string hash(const std::string& name) const { return metrics(name).back().at("weights_hash"); }

  /// `rows` images of noise with classes 0 to 9, in turn, for --data tensors:NAME.
  void write_rows(const std::string& name, std::int64_t rows) const {
    core::Tensor input = core::Tensor::empty({rows, 1, 28, 28});
    core::fill_normal(input, 0, 1, core::Generator(7).next());
    std::vector<std::int64_t> target;
    for (std::int64_t row = 0; row < rows; ++row) target.push_back(row * 7 % 10);
    core::save_safetensors(folder_ / name, {{"input", input}, {"target", core::Tensor::from(target)}});
  }

  /// The largest difference between two files of tensors, which must have the same names and shapes.
  double largest_difference(const std::string& name_a, const std::string& name_b) const {
    const core::TensorMap a = core::load_safetensors(folder_ / name_a), b = core::load_safetensors(folder_ / name_b);
    EXPECT_EQ(a.size(), b.size());
    double largest = 0;
    for (const auto& [name, tensor] : a) {
      const auto x = tensor.to_vector<double>(), y = b.at(name).to_vector<double>();
      EXPECT_EQ(x.size(), y.size()) << name;
      for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        const double difference = std::abs(x[i] - y[i]);
        if (std::isnan(difference)) return difference;  // no bound holds for it
        largest = std::max(largest, difference);
      }
    }
    return largest;
  }

  fs::path folder_;
};

}  // namespace tandem::train
