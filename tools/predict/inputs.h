// What is to be predicted: a data set without labels, and what its rows are called.
#pragma once

#include <string>
#include <vector>

#include "tools/predict/options.h"
#include "tools/train/tasks/data_source.h"

namespace tandem::predict {

struct Inputs {
  train::DataSource data;
  std::vector<std::string> names;  ///< of each sample: its path, or its line
  std::vector<std::int64_t> rows;  ///< of logits of each sample: 1, or its [MASK]s
  bool fills_masks = false;        ///< rows are words, by the tokenizer's numbers
};

/// Images as the run's own evaluation reads them, or lines. `classifies_text` says what a BERT does with those. Throws
/// Error naming what cannot be read, and if the run's data leave open how an image becomes a sample.
Inputs open_inputs(const Options& options, bool classifies_text);

}  // namespace tandem::predict
