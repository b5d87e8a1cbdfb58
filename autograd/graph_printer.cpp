#include "tandem/autograd/graph_printer.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tandem/autograd/node.h"

namespace tandem::autograd {

std::vector<const Node*> nodes_newest_first(const Variable& root) {
  std::vector<const Node*> found, unexplored;
  std::set<const Node*> seen;
  const auto visit = [&](const NodePtr& node) {
    if (node && seen.insert(node.get()).second) unexplored.push_back(node.get());
  };
  visit(root.maker());
  while (!unexplored.empty()) {
    const Node* node = unexplored.back();
    unexplored.pop_back();
    found.push_back(node);
    for (const Edge& edge : node->inputs()) visit(edge.node);
  }
  std::sort(found.begin(), found.end(), [](const Node* a, const Node* b) { return a->sequence() > b->sequence(); });
  return found;
}

namespace {

// Numbers from 0 by creation, whatever else the process has made.
std::map<const Node*, std::size_t> numbered(const std::vector<const Node*>& newest_first) {
  std::map<const Node*, std::size_t> numbers;
  for (std::size_t i = 0; i < newest_first.size(); ++i) numbers[newest_first[i]] = newest_first.size() - 1 - i;
  return numbers;
}

std::string describe_leaf(const StatePtr& leaf, const LeafName& leaf_name) {
  std::string text = leaf_name ? leaf_name(Variable(leaf)) : "";
  return (text.empty() ? "leaf" : text) + " " + leaf->data.shape().str();
}

}  // namespace

std::string print_graph(const Variable& root, const LeafName& leaf_name) {
  const auto nodes = nodes_newest_first(root);
  auto numbers = numbered(nodes);
  std::string text;
  for (const Node* node : nodes) {
    std::string inputs;
    for (const Edge& edge : node->inputs()) {
      if (!inputs.empty()) inputs += ", ";
      inputs += edge.node   ? std::to_string(numbers[edge.node.get()])
                : edge.leaf ? describe_leaf(edge.leaf, leaf_name)
                            : "-";
    }
    text += fmt::format("{:>4}  {:<32} <- {}\n", numbers[node],
                        fmt::format("{} {}", node->name(), node->output_shape().str()), inputs);
  }
  return text;
}

std::string graph_to_dot(const Variable& root, const LeafName& leaf_name) {
  const auto nodes = nodes_newest_first(root);
  auto numbers = numbered(nodes);
  std::string text = "digraph tape {\n  node [shape=box];\n";
  std::map<const void*, std::string> leaves;
  for (const Node* node : nodes) {
    text += fmt::format("  n{} [label=\"{} {}\"];\n", numbers[node], node->name(), node->output_shape().str());
    for (const Edge& edge : node->inputs()) {
      if (edge.node) text += fmt::format("  n{} -> n{};\n", numbers[node], numbers[edge.node.get()]);
      if (!edge.leaf) continue;
      auto [it, is_new] = leaves.emplace(edge.leaf.get(), fmt::format("leaf{}", leaves.size()));
      if (is_new)
        text += fmt::format("  {} [label=\"{}\", shape=ellipse];\n", it->second, describe_leaf(edge.leaf, leaf_name));
      text += fmt::format("  n{} -> {};\n", numbers[node], it->second);
    }
  }
  return text + "}\n";
}

}  // namespace tandem::autograd
