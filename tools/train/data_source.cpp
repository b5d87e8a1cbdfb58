#include "tools/train/data_source.h"

#include <algorithm>
#include <vector>

#include "tandem/data/cifar10.h"
#include "tandem/data/fashion_mnist.h"
#include "tandem/data/synthetic.h"
#include "tandem/data/tensors_dataset.h"

namespace tandem::train {
namespace {

using data::Dataset;
using data::Split;

/// Samples [begin, begin + size) of another data set.
class Range final : public Dataset {
 public:
  Range(std::shared_ptr<const Dataset> whole, std::int64_t begin, std::int64_t size)
      : whole_(std::move(whole)), begin_(begin), size_(size) {}

  std::int64_t size() const override { return size_; }
  core::Shape sample_shape() const override { return whole_->sample_shape(); }
  std::int64_t classes() const override { return whole_->classes(); }

 protected:
  void read_into(std::span<const std::int64_t> indices, const data::EpochContext& context, float* input,
                 std::int64_t* target) const override {
    std::vector<std::int64_t> shifted(indices.begin(), indices.end());
    for (std::int64_t& index : shifted) index += begin_;
    const data::Batch batch = whole_->read(shifted, context);
    std::copy_n(batch.input.data<float>(), batch.input.numel(), input);
    std::copy_n(batch.target.data<std::int64_t>(), batch.target.numel(), target);
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  std::int64_t begin_, size_;
};

DataSource open_synthetic(const Settings& settings) {
  const std::int64_t train = *settings.synthetic_samples, test = std::max<std::int64_t>(1, train / 4);
  const auto all =
      std::make_shared<data::Synthetic>(data::SyntheticOptions{.size = train + test,
                                                               .sample_shape = {1, 28, 28},
                                                               .classes = 10,
                                                               .seed = static_cast<std::uint64_t>(settings.seed)});
  return {.train = std::make_shared<Range>(all, 0, train), .test = std::make_shared<Range>(all, train, test)};
}

DataSource open_any(const Settings& settings) {
  if (const auto file = tensors_file(*settings.data)) {
    const auto rows = std::make_shared<data::TensorsDataset>(*file);
    return {.train = rows, .test = rows, .shuffle = false};
  }
  if (*settings.data == "synthetic") return open_synthetic(settings);
  const std::string& folder = *settings.data_dir;
  if (*settings.data == "cifar10")
    return {.train = std::make_shared<data::Cifar10>(folder, Split::train, /*augment=*/true),
            .test = std::make_shared<data::Cifar10>(folder, Split::test)};
  const auto& normalization = *settings.data == "mnist" ? data::kMnistNormalization : data::kFashionMnistNormalization;
  return {.train = std::make_shared<data::FashionMnist>(folder, Split::train, normalization),
          .test = std::make_shared<data::FashionMnist>(folder, Split::test, normalization)};
}

}  // namespace

DataSource open_data(const Settings& settings) {
  DataSource source = open_any(settings);
  if (source.train->size() == 0 || source.test->size() == 0)
    core::fail("--data {}: {} training and {} test samples, at least one of each is needed", *settings.data,
               source.train->size(), source.test->size());
  if (source.train->sample_shape() != source.test->sample_shape())
    core::fail("--data {}: training samples have shape {}, test samples {}", *settings.data,
               source.train->sample_shape().str(), source.test->sample_shape().str());
  return source;
}

}  // namespace tandem::train
