// Shows the tape that a variable hangs on, in the order in which backward will run it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tandem/autograd/variable.h"

namespace tandem::autograd {

/// The nodes that `root` hangs on, in the order in which backward will run them. They live as long as `root` does.
std::vector<const Node*> nodes_newest_first(const Variable& root);

/// Names leaves in the output ("fc1.weight"); an empty result means it knows no name.
using LeafName = std::function<std::string(const Variable& leaf)>;

/// One line a node, newest first:
///   12  cross_entropy []      <- 11
///   11  linear [8, 10]        <- 10, fc2.weight [10, 32], fc2.bias [10]
/// An input that needs no gradient shows as "-".
std::string print_graph(const Variable& root, const LeafName& leaf_name = {});

/// The same for Graphviz: `dot -Tsvg`.
std::string graph_to_dot(const Variable& root, const LeafName& leaf_name = {});

}  // namespace tandem::autograd
