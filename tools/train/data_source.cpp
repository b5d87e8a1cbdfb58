#include "tools/train/data_source.h"

#include <algorithm>

#include "tandem/data/cifar10.h"
#include "tandem/data/fashion_mnist.h"
#include "tandem/data/synthetic.h"
#include "tandem/data/tensors_dataset.h"

namespace tandem::train {
namespace {

using data::Split;

DataSource open_synthetic(const Settings& settings) {
  data::SyntheticOptions options{.size = *settings.synthetic_samples,
                                 .sample_shape = {1, 28, 28},
                                 .classes = 10,
                                 .seed = static_cast<std::uint64_t>(settings.seed)};
  const auto train = std::make_shared<data::Synthetic>(options);
  options.first = options.size;
  options.size = std::max<std::int64_t>(1, options.size / 4);
  return {.train = train, .test = std::make_shared<data::Synthetic>(options)};
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
