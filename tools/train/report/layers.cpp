#include "tools/train/report/layers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "tandem/autograd/graph_printer.h"
#include "tandem/autograd/node.h"

namespace tandem::train {
namespace {

using autograd::Edge;
using autograd::Node;

// Size of dimension `dim`, counted from the back, of an input; none where the input needed no gradient.
std::optional<std::int64_t> size_from_back(const Node& node, std::size_t input, int dim) {
  if (input >= node.inputs().size() || !node.inputs()[input]) return std::nullopt;
  const core::Shape& shape = node.inputs()[input].shape();
  if (shape.rank() < dim) return std::nullopt;
  return shape[shape.rank() - dim];
}

// How many products make one element of the output.
std::optional<std::int64_t> products_of_element(const Node& node) {
  const std::string_view op = node.name();
  if (op == "conv2d") {  // weight [O, C / groups, kh, kw]
    const auto channels = size_from_back(node, 1, 3), height = size_from_back(node, 1, 2),
               width = size_from_back(node, 1, 1);
    return channels ? std::optional(*channels * *height * *width) : std::nullopt;
  }
  if (op == "linear") {  // x [..., in], weight [out, in]
    const auto of_weight = size_from_back(node, 1, 1);
    return of_weight ? of_weight : size_from_back(node, 0, 1);
  }
  if (op == "matmul") {  // [..., M, K] x [..., K, N]
    const auto of_left = size_from_back(node, 0, 1);
    return of_left ? of_left : size_from_back(node, 1, 2);
  }
  if (op == "attention") {  // q [N, S, D], k and v [N, T, D]: T for the scores, T for the weighted sum
    auto length = size_from_back(node, 1, 2);
    if (!length) length = size_from_back(node, 2, 2);
    return length ? std::optional(2 * *length) : std::nullopt;
  }
  return 0;
}

// "layer1.0.conv1" of "layer1.0.conv1.weight"; the parameter's own name where it is the model's own.
std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

class Reader {
 public:
  Reader(const std::vector<nn::NamedParameter>& parameters, const std::set<std::string>& frozen) : frozen_(frozen) {
    for (const auto& parameter : parameters) names_[parameter.variable.state().get()] = &parameter.name;
  }

  Layer read(const Node& node) {
    Layer layer{.module = {}, .op = node.name(), .output = node.output_shape()};
    std::vector<std::string> modules;
    for (const Edge& edge : node.inputs()) {
      const auto found = names_.find(edge.leaf.get());
      if (!edge.leaf || found == names_.end()) continue;
      modules.push_back(module_of(*found->second));
      layer.has_parameters = true;
      count(*found->second, edge.leaf->data.numel(), layer);
    }
    modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
    layer.module = fmt::format("{}", fmt::join(modules, " + "));
    layer.multiply_adds = products_of_element(node);
    if (layer.multiply_adds) *layer.multiply_adds *= core::numel(node.output_shape());
    return layer;
  }

  /// Nothing if a layer before has counted it.
  void count(const std::string& parameter, std::int64_t elements, Layer& layer) {
    if (!taken_.insert(parameter).second) return;
    layer.parameters += elements;
    if (frozen_.count(parameter)) layer.frozen += elements;
  }
  bool is_counted(const std::string& parameter) const { return taken_.count(parameter) > 0; }

 private:
  const std::set<std::string>& frozen_;
  std::map<const void*, const std::string*> names_;
  std::set<std::string> taken_;
};

}  // namespace

std::vector<Layer> layers_of(const nn::Variable& output, const std::vector<nn::NamedParameter>& parameters,
                             const std::set<std::string>& frozen) {
  auto nodes = autograd::nodes_newest_first(output);
  std::reverse(nodes.begin(), nodes.end());
  Reader reader(parameters, frozen);
  std::vector<Layer> layers;
  for (const Node* node : nodes) layers.push_back(reader.read(*node));
  for (const auto& [name, variable] : parameters) {
    if (reader.is_counted(name)) continue;
    const std::string module = module_of(name);
    if (layers.empty() || !layers.back().op.empty() || layers.back().module != module)
      layers.push_back({.module = module, .op = {}, .output = {}, .has_parameters = true});
    reader.count(name, variable.data().numel(), layers.back());
  }
  return layers;
}

std::vector<Layer> layers_for(std::int64_t rows, const std::vector<Layer>& of_two, const std::vector<Layer>& of_three) {
  const auto at = [rows](std::int64_t two, std::int64_t three) { return two + (three - two) * (rows - 2); };
  const auto differ = [](const Layer& a, const Layer& b) {
    return a.op != b.op || a.module != b.module || a.output.rank() != b.output.rank();
  };
  if (!std::equal(of_two.begin(), of_two.end(), of_three.begin(), of_three.end(), std::not_fn(differ)))
    core::fail("--summary: the model's operators depend on its data: {} for 2 samples, {} for 3, or others",
               of_two.size(), of_three.size());
  std::vector<Layer> layers = of_two;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (int d = 0; d < layers[i].output.rank(); ++d)
      layers[i].output[d] = at(of_two[i].output[d], of_three[i].output[d]);
    layers[i].multiply_adds = of_three[i].multiply_adds;
    if (layers[i].multiply_adds) *layers[i].multiply_adds /= 3;
  }
  return layers;
}

}  // namespace tandem::train
