// What a model consists of, read off the tape of a forward: operators in the order in which they ran, each with the
// module that it belongs to, its output, its parameters and its arithmetic.
//
// The tape knows no modules. An operator belongs to the module whose parameters it takes: conv2d with
// layer1.0.conv1.weight is layer1.0.conv1. Operators without parameters stand for themselves. What needs no gradient,
// such as a reshape of the input, is not on the tape.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tandem/nn/module.h"

namespace tandem::train {

struct Layer {
  std::string module;  ///< "layer1.0.conv1"; empty for an operator without parameters
  std::string op;      ///< "conv2d"; empty for parameters that no operator took
  core::Shape output;  ///< of all rows
  bool has_parameters = false;
  std::int64_t parameters = 0;  ///< elements that no layer before took: what is shared counts once
  std::int64_t frozen = 0;      ///< of these, those that are not trained
  /// Products that are added up, in convolutions, linear layers, matmul and attention; elementwise operators and sums
  /// count as 0. None where an input that the formula needs is not on the tape.
  std::optional<std::int64_t> multiply_adds = 0;
};

/// `output` is what the model made, with gradients recorded; multiply-adds are those of all its rows. Parameters that
/// it does not hang on come last, by module. `frozen`: names of the parameters that are not trained, though here they,
/// too, are on the tape.
std::vector<Layer> layers_of(const nn::Variable& output, const std::vector<nn::NamedParameter>& parameters,
                             const std::set<std::string>& frozen = {});

/// From forwards of 2 and 3 rows: outputs as `rows` rows would have them, for each size grows evenly with the rows, and
/// multiply-adds of one row. Throws Error where the two consist of different operators.
std::vector<Layer> layers_for(std::int64_t rows, const std::vector<Layer>& of_two, const std::vector<Layer>& of_three);

}  // namespace tandem::train
