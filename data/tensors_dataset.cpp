#include "tandem/data/tensors_dataset.h"

#include <algorithm>

#include "tandem/core/files/safetensors.h"

namespace tandem::data {
namespace {

core::Tensor take(const std::filesystem::path& path, const core::TensorMap& tensors, const char* name,
                  core::DType dtype) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    core::fail("{}: has no tensor \"{}\", needed are \"input\" and \"target\"", path.string(), name);
  if (found->second.dtype() != dtype)
    core::fail("{}: \"{}\" is {}, needed {}", path.string(), name, core::name(found->second.dtype()),
               core::name(dtype));
  return found->second;
}

}  // namespace

TensorsDataset::TensorsDataset(const std::filesystem::path& path) {
  const core::TensorMap tensors = core::load_safetensors(path);
  input_ = take(path, tensors, "input", core::DType::float32);
  target_ = take(path, tensors, "target", core::DType::int64);
  if (target_.rank() != 1 || input_.rank() < 1 || input_.size(0) != target_.size(0))
    core::fail("{}: \"input\" {} and \"target\" {} do not fit, needed [N, ...] and [N]", path.string(),
               input_.shape().str(), target_.shape().str());
  const std::int64_t* target = target_.data<std::int64_t>();
  for (std::int64_t row = 0; row < size(); ++row) {
    if (target[row] < 0 || target[row] >= kMostClasses)
      core::fail("{}: target[{}] is {}, needed a class from 0 to {}", path.string(), row, target[row],
                 kMostClasses - 1);
    classes_ = std::max(classes_, target[row] + 1);
  }
}

core::Shape TensorsDataset::sample_shape() const {
  return core::Shape(std::span(input_.shape().begin() + 1, input_.shape().end()));
}

void TensorsDataset::read_into(std::span<const std::int64_t> indices, const EpochContext&, float* input,
                               std::int64_t* target) const {
  const std::int64_t elements = core::numel(sample_shape());
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const std::int64_t index = indices[row];
    input = std::copy_n(input_.data<float>() + index * elements, elements, input);
    target[row] = target_.data<std::int64_t>()[index];
  }
}

}  // namespace tandem::data
