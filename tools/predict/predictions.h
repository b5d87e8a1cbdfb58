// What a model says of its inputs, and the files that this is written to.
#pragma once

#include <string>
#include <vector>

#include "tandem/core/tensor.h"

namespace tandem::predict {

/// A row is an input, or a [MASK] in it.
struct Predictions {
  std::vector<std::string> inputs;   ///< of each row
  std::vector<std::int64_t> masks;   ///< of each row, its number in the line, from 1; empty if rows are inputs
  std::vector<std::string> classes;  ///< of each column
  core::Tensor logits;               ///< float32 [R, C]
};

/// float32 [R, C]: softmax of the logits.
core::Tensor probabilities(const Predictions& predictions);

/// A header, then `top` lines for each row, the most probable first: input,rank,class,probability, or with masks
/// input,mask,rank,word,probability. Fields are quoted as RFC 4180 says.
std::string to_csv(const Predictions& predictions, std::int64_t top);

/// Tensors "logits" and "probabilities"; metadata "classes" and "inputs", JSON arrays of strings.
void save_safetensors(const std::string& path, const Predictions& predictions);

}  // namespace tandem::predict
