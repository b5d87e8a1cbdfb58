// Module: a part of a model. It owns parameters (learned), buffers (remembered) and other modules, each under a name.
//
// A module registers its members in its constructor, so names and order follow from the code:
//
//   class Mlp : public Module {
//    public:
//     explicit Mlp(Generator& random) : fc1_(784, 256, random), fc2_(256, 10, random) {
//       register_module("fc1", fc1_);
//       register_module("fc2", fc2_);
//     }
//     Variable forward(const Variable& x) override { return fc2_.forward(relu(fc1_.forward(x))); }
//    private:
//     Linear fc1_, fc2_;
//   };
//
// Members are registered by address, so modules are neither copied nor moved.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tandem/autograd/ops.h"
#include "tandem/autograd/variable.h"
#include "tandem/core/random.h"
#include "tandem/core/state_dict.h"

namespace tandem::nn {

using autograd::Variable;
using core::DType;
using core::Generator;
using core::Shape;
using core::StateDict;
using core::Tensor;

struct NamedParameter {
  std::string name;  ///< "layer1.0.conv1.weight"
  Variable variable;
};

struct NamedBuffer {
  std::string name;
  Tensor* tensor;  ///< the module's member: assigning to it swaps the storage
};

/// How the names in a file differ from a module's.
struct NameDifference {
  std::vector<std::string> missing;     ///< of the module, not in the file
  std::vector<std::string> unexpected;  ///< in the file, not of the module

  bool empty() const { return missing.empty() && unexpected.empty(); }
  /// "missing: a b; unexpected: none", of each the first eight names and how many more.
  std::string str() const;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The usual case: one input, one output. Modules that take other arguments have a method of their own instead.
  virtual Variable forward(const Variable& input);

  /// In order of registration, depth first; each once, under its first name, however many modules share it.
  std::vector<NamedParameter> named_parameters() const;
  std::vector<Variable> parameters() const;
  std::vector<NamedBuffer> named_buffers();
  /// This module and all below, parents before children.
  std::vector<Module*> modules();

  /// Training mode, the default, or evaluation mode, for this module and all below.
  void train(bool training = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }

  /// Parameters and buffers by name. The tensors share memory with the module.
  StateDict state_dict();
  /// Copies values in place. Throws listing all names that are missing or unexpected, or the first shape that differs;
  /// then nothing has been changed.
  void load_state_dict(const StateDict& state);
  /// The same for the names that both have; the others are left as they are, and returned.
  NameDifference load_matching(const StateDict& state);

  /// Floating parameters and buffers get another dtype. Gradients become none: to be called before training.
  void to(DType dtype);
  void to(core::Device device);
  /// Gradients become none, so that the next backward writes instead of adding.
  void zero_grad();

  /// Where random numbers are drawn from now on, for this module and all below (core/random.h). Each place that draws
  /// has a number of its own, by position in the model.
  void set_random_context(const core::RandomContext& context);

 protected:
  // Each throws where the name is empty or taken: state dicts and files tell members apart by it.
  Variable register_parameter(std::string name, Tensor data);
  /// `tensor` must be a member of this object.
  void register_buffer(std::string name, Tensor& tensor);
  void register_module(std::string name, Module& module);

  /// For modules that draw (Dropout), which are numbered by position in the model.
  virtual bool draws() const { return false; }
  virtual void random_context_changed(const core::RandomContext& context, std::uint32_t number);

 private:
  void check_new(const std::string& name) const;
  template <class Visit>
  void visit(const std::string& prefix, Visit&& visit_module);

  std::vector<std::pair<std::string, Variable>> parameters_;
  std::vector<std::pair<std::string, Tensor*>> buffers_;
  std::vector<std::pair<std::string, Module*>> modules_;
  bool training_ = true;
};

}  // namespace tandem::nn
