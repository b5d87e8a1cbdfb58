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

#include <concepts>
#include <memory>
#include <ranges>
#include <string>
#include <type_traits>
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
  // Each throws if the name is empty or taken: state dicts and files tell members apart by it. Each returns what it has
  // registered.
  Variable register_parameter(std::string name, Tensor data);
  /// `tensor` must be a member of this object.
  Tensor& register_buffer(std::string name, Tensor& tensor);
  /// `module` must be a member of this object.
  template <std::derived_from<Module> M>
  M& register_module(std::string name, M& module) {
    add_module(std::move(name), std::shared_ptr<Module>(std::shared_ptr<void>(), &module));
    return module;
  }
  /// This module keeps the other one alive: fc_ = register_module("fc", std::make_shared<Linear>(...)).
  template <std::derived_from<Module> M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_module(std::move(name), module);
    return module;
  }
  /// The modules to which the pointers of a list point, under the names "NAME.0", "NAME.1", ... If the pointers are
  /// shared, this module keeps the others alive; else the list must be a member of this object.
  template <std::ranges::forward_range Pointers>
  Pointers& register_modules(const std::string& name, Pointers& pointers) {
    std::size_t number = 0;
    for (const auto& pointer : pointers) {
      const std::string own_name = name + "." + std::to_string(number++);
      if constexpr (std::is_convertible_v<decltype(pointer), std::shared_ptr<Module>>) {
        add_module(own_name, pointer);
      } else {
        register_module(own_name, *pointer);
      }
    }
    return pointers;
  }

  /// For modules that draw (Dropout), which are numbered by position in the model.
  virtual bool draws() const { return false; }
  virtual void random_context_changed(const core::RandomContext& context, std::uint32_t number);

 private:
  void check_new(const std::string& name) const;
  void add_module(std::string name, std::shared_ptr<Module> module);
  template <class Visit>
  void visit(const std::string& prefix, Visit&& visit_module);

  std::vector<std::pair<std::string, Variable>> parameters_;
  std::vector<std::pair<std::string, Tensor*>> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> modules_;  // members of this object are not owned
  bool training_ = true;
};

}  // namespace tandem::nn
