// Weights of BERTs from elsewhere: files name the same matrices in several ways.
#pragma once

#include "tandem/nn/module.h"

namespace tandem::models {

/// The entries of `file` under the names that `model` has, where they are the same thing said otherwise:
///   - with or without the prefix "bert.",
///   - LayerNorm.gamma and .beta, TensorFlow's names, are weight and bias,
///   - position_ids, a constant, is left out,
///   - so are cls.predictions.decoder.weight and .bias, second names of the word embeddings and of
///     cls.predictions.bias.
/// All others keep their names. Throws Error where a second name has other values than the first: then the decoder is
/// a matrix of its own, which this model has not.
core::StateDict with_names_of(nn::Module& model, const core::StateDict& file);

}  // namespace tandem::models
