#include "tandem/data/tensors_dataset.h"

#include "tandem/core/files/safetensors.h"
#include "tests/data/temporary_folder.h"

namespace tandem::data {
namespace {

using core::DType;
using core::Shape;

TEST(TensorsDataset, RowsInFileOrder) {
  const TemporaryFolder folder;
  const core::Tensor input = core::Tensor::arange(24, DType::float32).reshape({4, 1, 2, 3});
  const core::Tensor target = core::Tensor::from<std::int64_t>({5, 0, 2, 1});
  core::save_safetensors(folder / "f", {{"input", input}, {"target", target}, {"other", input}});
  const TensorsDataset tensors(folder / "f");
  EXPECT_EQ(tensors.size(), 4);
  EXPECT_EQ(tensors.classes(), 6);
  EXPECT_EQ(tensors.sample_shape(), (Shape{1, 2, 3}));
  const Batch batch = tensors.read(std::vector<std::int64_t>{3, 1});
  EXPECT_EQ(batch.target.to_vector<int>(), (std::vector<int>{1, 0}));
  EXPECT_EQ(batch.input.shape(), (Shape{2, 1, 2, 3}));
  EXPECT_EQ(batch.input.to_vector<float>(), (std::vector<float>{18, 19, 20, 21, 22, 23, 6, 7, 8, 9, 10, 11}));
}

TEST(TensorsDataset, WrongFiles) {
  const TemporaryFolder folder;
  const core::Tensor input = core::Tensor::zeros({4, 2}), target = core::Tensor::zeros({4}, {.dtype = DType::int64});
  const auto error = [&](const core::StateDict& tensors) {
    core::save_safetensors(folder / "f", tensors);
    const std::string message = error_of([&] { TensorsDataset(folder / "f"); });
    expect_contains(message, (folder / "f").string());
    return message;
  };
  expect_contains(error({{"target", target}}), "has no tensor \"input\"");
  expect_contains(error({{"input", input}}), "has no tensor \"target\"");
  expect_contains(error({{"input", input.to(DType::float64)}, {"target", target}}),
                  "\"input\" is float64, needed float32");
  expect_contains(error({{"input", input}, {"target", input}}), "\"target\" is float32, needed int64");
  expect_contains(error({{"input", input.slice(0, 0, 3)}, {"target", target}}),
                  "\"input\" [3, 2] and \"target\" [4] do not fit");
  expect_contains(error({{"input", core::Tensor::zeros({})}, {"target", target}}), "do not fit");
  expect_contains(error({{"input", input}, {"target", target.unsqueeze(1)}}), "do not fit");
  expect_contains(error({{"input", input}, {"target", core::Tensor::from<std::int64_t>({0, 1, -100, 1})}}),
                  "target[2] is -100");
  expect_contains(error({{"input", input}, {"target", core::Tensor::full({4}, 1e18, {.dtype = DType::int64})}}),
                  "target[0] is 1000000000000000000");
}

}  // namespace
}  // namespace tandem::data
