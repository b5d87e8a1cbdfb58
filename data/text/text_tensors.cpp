#include "tandem/data/text/text_tensors.h"

#include <algorithm>
#include <limits>

#include "tandem/core/files/safetensors.h"

namespace tandem::data {
namespace {

// Takes checked tensors out of a file's.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), tensors_(core::load_safetensors(path)) {}

  bool has(const char* name) const { return tensors_.contains(name); }
  /// -1 where there is none.
  int rank_of(const char* name) const { return has(name) ? tensors_.at(name).rank() : -1; }

  core::Tensor take(const char* name, int rank) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      core::fail("{}: has no tensor \"{}\", needed are \"input_ids\" and \"labels\"", path_.string(), name);
    const core::Tensor& tensor = found->second;
    if (tensor.dtype() != core::DType::int64)
      core::fail("{}: \"{}\" is {}, needed int64", path_.string(), name, core::name(tensor.dtype()));
    if (tensor.rank() != rank)
      core::fail("{}: \"{}\" is {}, needed {}", path_.string(), name, tensor.shape().str(),
                 rank == 1 ? "[N]" : "[N, S]");
    return tensor;
  }

  // [N, S], as input_ids.
  core::Tensor take_like(const core::Tensor& input_ids, const char* name) const {
    return fitting(take(name, 2), input_ids, input_ids.shape(), name);
  }
  // [N].
  core::Tensor take_rows_of(const core::Tensor& input_ids, const char* name) const {
    return fitting(take(name, 1), input_ids, {input_ids.size(0)}, name);
  }

  // Values in [0, most], or kNotPredicted where that is allowed. Returns one more than the largest, at least 1.
  std::int64_t check(const char* name, const core::Tensor& tensor, std::int64_t most,
                     bool or_not_predicted = false) const {
    std::int64_t above = 1;
    const std::int64_t* values = tensor.data<std::int64_t>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      const bool valid = (values[i] >= 0 && values[i] <= most) || (or_not_predicted && values[i] == kNotPredicted);
      if (!valid)
        core::fail("{}: value {} of \"{}\" is {}, needed 0 to {}{}", path_.string(), i, name, values[i], most,
                   or_not_predicted ? fmt::format(", or {}", kNotPredicted) : "");
      above = std::max(above, values[i] + 1);
    }
    return above;
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  core::Tensor fitting(const core::Tensor& tensor, const core::Tensor& input_ids, const core::Shape& shape,
                       const char* name) const {
    if (tensor.shape() != shape)
      core::fail("{}: \"{}\" {} does not fit \"input_ids\" {}", path_.string(), name, tensor.shape().str(),
                 input_ids.shape().str());
    return tensor;
  }

  const std::filesystem::path& path_;
  core::TensorMap tensors_;
};

core::Tensor take_rows(const core::Tensor& from, std::span<const std::int64_t> indices) {
  core::Shape shape = from.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  core::Tensor rows = core::Tensor::empty(shape, {.dtype = core::DType::int64, .device = core::kCpu});
  if (rows.numel() == 0) return rows;
  const std::int64_t width = rows.numel() / shape[0];
  std::int64_t* out = rows.mutable_data<std::int64_t>();
  for (const std::int64_t index : indices) out = std::copy_n(from.data<std::int64_t>() + index * width, width, out);
  return rows;
}

}  // namespace

TextTensors::TextTensors(const std::filesystem::path& path) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 1;
  const Reader file(path);
  input_ids_ = file.take("input_ids", 2);
  if (input_ids_.size(1) == 0)
    core::fail("{}: \"input_ids\" are {}: no token", path.string(), input_ids_.shape().str());
  vocabulary_size_ = file.check("input_ids", input_ids_, kMost);
  if (file.rank_of("labels") == 1) {
    labels_ = file.take_rows_of(input_ids_, "labels");
    classes_ = file.check("labels", labels_, kMostClasses - 1);
  } else {
    labels_ = file.take_like(input_ids_, "labels");
    vocabulary_size_ = std::max(vocabulary_size_, file.check("labels", labels_, kMost, true));
  }
  attention_mask_ =
      file.has("attention_mask")
          ? file.take_like(input_ids_, "attention_mask")
          : core::Tensor::full(input_ids_.shape(), 1, {.dtype = core::DType::int64, .device = core::kCpu});
  file.check("attention_mask", attention_mask_, 1);
  token_type_ids_ = file.has("token_type_ids")
                        ? file.take_like(input_ids_, "token_type_ids")
                        : core::Tensor::zeros(input_ids_.shape(), {.dtype = core::DType::int64, .device = core::kCpu});
  token_types_ = file.check("token_type_ids", token_type_ids_, kMost);
  if (!file.has("next_sentence_label")) return;
  next_sentence_ = file.take_rows_of(input_ids_, "next_sentence_label");
  file.check("next_sentence_label", next_sentence_, 1);
}

Batch TextTensors::read_batch(std::span<const std::int64_t> indices, const EpochContext&) const {
  Batch batch;
  batch.input = take_rows(input_ids_, indices);
  batch.target = take_rows(labels_, indices);
  batch.attention_mask = take_rows(attention_mask_, indices);
  batch.token_type_ids = take_rows(token_type_ids_, indices);
  if (pairs()) batch.next_sentence = take_rows(next_sentence_, indices);
  return batch;
}

TensorsKind tensors_kind(const std::filesystem::path& path) {
  const std::vector<std::string> names = core::safetensors_names(path);
  const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (has("input_ids")) return TensorsKind::text;
  if (has("input")) return TensorsKind::labelled;
  core::fail("{}: has neither \"input\" and \"target\" nor \"input_ids\" and \"labels\"", path.string());
}

}  // namespace tandem::data
