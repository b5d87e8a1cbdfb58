// The data sets that --data names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/data/labelled_dataset.h"
#include "tandem/data/text/text_dataset.h"
#include "tandem/data/text/tokenizer_files.h"
#include "tools/train/settings/settings.h"

namespace tandem::train {

struct DataSource {
  std::shared_ptr<const data::Dataset> train, test;
  bool shuffle = true;                        ///< the training samples, anew each epoch
  std::vector<std::string> class_names = {};  ///< by number; empty if nobody has said
  std::vector<std::string> notes = {};        ///< what a user may not expect: a line each
  /// Hashes of all that samples are made of: names and sizes of image files, tokens and ends of sentences; empty
  /// for other data.
  std::string train_contents = {}, test_contents = {};
  std::optional<data::TokenizerFile> tokenizer = {};  ///< of text that was tokenized here
  std::optional<double> unigram_entropy = {};         ///< of its training part, nats: the loss of who knows no context
  /// A hash of what samples mean: the vocabulary, train_contents, and a few training samples as a model gets them. A
  /// run that goes on must have the same.
  std::string fingerprint = {};

  /// Rows with a class each; else null.
  const data::LabelledDataset* labelled() const;
  /// Sequences of tokens; else null.
  const data::TextDataset* text() const;
  /// "60,000 training and 10,000 test samples [1, 28, 28], 10 classes"
  std::string describe() const;
};

/// A hash of the tokens and their numbers; none of data that were not tokenized here.
std::optional<std::string> vocabulary_hash(const DataSource& data);

/// `settings` are resolved. Throws Error where a file is missing or damaged, or there are no samples.
/// tensors: test and train are the same rows. synthetic: a quarter as many test samples, of the same kind with other
/// noise.
DataSource open_data(const Settings& settings);

/// A hash of more than fingerprint has, test samples among them: ranks must have the same, wherever their data lie.
std::string contents_fingerprint(const DataSource& source);

}  // namespace tandem::train
