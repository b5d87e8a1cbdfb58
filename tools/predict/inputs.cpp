#include "tools/predict/inputs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "tandem/core/files/file.h"
#include "tandem/core/lines.h"
#include "tandem/data/cifar10.h"
#include "tandem/data/fashion_mnist.h"
#include "tandem/data/images/image_folder.h"
#include "tandem/data/text/text_lines.h"
#include "tandem/data/text/unicode.h"
#include "tools/train/settings/bert_settings.h"

namespace tandem::predict {
namespace {

namespace fs = std::filesystem;

// Images of any size and colour, brought to what the model was trained on.
class Images final : public data::LabelledDataset {
 public:
  Images(data::ImageFiles files, const data::ImageFolderOptions& options, bool gray)
      : folder_(std::move(files), options), gray_(gray) {}

  std::int64_t size() const override { return folder_.size(); }
  core::Shape sample_shape() const override {
    const core::Shape color = folder_.sample_shape();
    return {gray_ ? 1 : color[0], color[1], color[2]};
  }
  std::int64_t classes() const override { return 1; }  // unknown; every target is 0

 protected:
  void read_into(std::span<const std::int64_t> indices, const data::EpochContext& context, float* input,
                 std::int64_t* target) const override {
    const data::Batch batch = folder_.read(indices, context);
    const float* from = batch.input.data<float>();
    const std::int64_t plane = sample_shape()[1] * sample_shape()[2];
    std::fill_n(target, indices.size(), 0);
    if (!gray_) {
      std::copy_n(from, batch.input.numel(), input);
      return;
    }
    constexpr std::array<float, 3> kLuma{0.299f, 0.587f, 0.114f};  // ITU-R BT.601, as Pillow's convert("L")
    for (std::size_t row = 0; row < indices.size(); ++row, from += 3 * plane, input += plane)
      for (std::int64_t i = 0; i < plane; ++i)
        input[i] = kLuma[0] * from[i] + kLuma[1] * from[plane + i] + kLuma[2] * from[2 * plane + i];
  }

 private:
  data::ImageFolder folder_;
  bool gray_;
};

// Files as they are given; of folders all images in them and below, by name.
std::vector<std::string> list_images(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    std::error_code error;  // whatever it is, a file says what is wrong when it is read
    if (!fs::is_directory(input, error)) {
      files.push_back(input);
      continue;
    }
    const std::vector<std::string> found = data::list_images_below(input);
    if (found.empty()) core::fail("{}: has no image (.jpg, .png, ...)", input);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

Inputs open_images(const Options& options) {
  const train::Settings& s = options.settings;
  const std::string kind = train::data_name(s.data.value_or(is_resnet(s) ? "imagefolder" : "fashion-mnist")).kind;
  data::ImageFolderOptions image{.image_size = s.image_size.value_or(224)};
  bool gray = false;
  if (kind == "cifar10") {
    image = {.image_size = 32, .shorter_side = 32, .normalization = data::kCifar10Normalization};
  } else if (kind == "mnist" || kind == "fashion-mnist") {
    const auto& its = kind == "mnist" ? data::kMnistNormalization : data::kFashionMnistNormalization;
    image = {.image_size = 28, .shorter_side = 28, .normalization = {its, its, its}};
    gray = true;
  } else if (kind != "imagefolder") {
    core::fail("the run was trained on --data {}, which does not say how an image becomes its samples", *s.data);
  }
  Inputs inputs{.data = {}, .names = list_images(options.inputs), .rows = {}};
  data::ImageFiles files;
  files.classes = {"unknown"};
  for (const std::string& name : inputs.names) files.files.push_back({.name = name, .label = 0});
  inputs.data.train = std::make_shared<Images>(std::move(files), image, gray);
  inputs.rows.assign(inputs.names.size(), 1);
  return inputs;
}

std::string read_text(const std::string& input) {
  if (input != "-") return core::read_text_file(input);
  return core::without_byte_order_mark({std::istreambuf_iterator<char>(std::cin), {}});
}

Inputs open_lines(const Options& options, bool classifies) {
  const train::Settings& s = options.settings;
  if (!s.vocab)
    fail_usage("--vocab is needed: {} has no words (tokenizer.json)", options.from ? *options.from : *options.weights);
  data::TokenizerFile file = data::load_tokenizer(*s.vocab, s.cased);
  std::vector<std::string> lines, places;
  for (const std::string& input : options.inputs) {
    const std::string text = read_text(input);
    std::int64_t number = 0;
    core::for_each_line(text, [&](std::string_view line) {
      if (line.ends_with('\r')) line.remove_suffix(1);
      places.push_back(fmt::format("{}, line {}", input, ++number));
      if (const auto at = data::find_invalid_utf8(line))
        core::fail("{}: is not UTF-8 at its byte {}", places.back(), *at);
      lines.emplace_back(line);
    });
  }
  if (lines.empty()) core::fail("{}: holds no line", options.inputs.front());
  Inputs inputs{.data = {}, .names = lines, .rows = {}, .fills_masks = !classifies};
  const data::WordPiece tokenizer(file.vocabulary, {.words = file.words, .special_in_text = true});
  auto text = std::make_shared<data::TextLines>(
      lines, places, tokenizer,
      data::TextLinesOptions{.longest = train::bert_config_of(s).max_position_embeddings,
                             .truncate = options.truncate,
                             .classes = classifies ? *s.classes : 0});
  inputs.rows = classifies ? std::vector<std::int64_t>(lines.size(), 1) : text->masks();
  inputs.data.train = text;
  inputs.data.tokenizer = std::move(file);
  return inputs;
}

}  // namespace

Inputs open_inputs(const Options& options, bool classifies_text) {
  return is_bert(options.settings) ? open_lines(options, classifies_text) : open_images(options);
}

}  // namespace tandem::predict
