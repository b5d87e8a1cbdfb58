// The data sets that --data names.
#pragma once

#include <memory>

#include "tandem/data/labelled_dataset.h"
#include "tools/train/settings.h"

namespace tandem::train {

struct DataSource {
  std::shared_ptr<const data::LabelledDataset> train, test;
  bool shuffle = true;  ///< the training samples, anew each epoch
};

/// `settings` are resolved. Throws Error where a file is missing or damaged, or there are no samples.
/// tensors: test and train are the same rows. synthetic: a quarter as many test samples, of the same classes with other
/// noise.
DataSource open_data(const Settings& settings);

}  // namespace tandem::train
