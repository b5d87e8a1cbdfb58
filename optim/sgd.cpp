#include "tandem/optim/sgd.h"

#include "tandem/core/recorder.h"
#include "tandem/optim/segments.h"

namespace tandem::optim {

Sgd::Sgd(std::vector<Variable> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), options.lr), options_(options), momentum_buffers_(parameters_.size()) {
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0))
    core::fail("sgd: nesterov needs a momentum and no dampening, got {} and {}", options.momentum, options.dampening);
}

void Sgd::step() {
  const core::RecordScope scope("sgd", "phase");
  check_parameters("sgd");
  step_dtype<float>();
  step_dtype<double>();
}

template <class T>
void Sgd::step_dtype() {
  struct SgdSegment : Segment<T, 1> {
    bool first_step;
  };
  std::vector<SgdSegment> segments;
  std::vector<Tensor> keep;  // gradients that had to be laid out anew
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined() || parameters_[i].dtype() != core::dtype_of<T>) continue;
    Tensor parameter = parameters_[i].data(), gradient = laid_out_as(parameters_[i].grad(), parameter);
    Tensor& buffer = momentum_buffers_[i];
    const bool first_step = !buffer.defined();
    if (options_.momentum != 0) buffer = first_step ? Tensor::empty_like(parameter) : laid_out_as(buffer, parameter);
    T* state = options_.momentum != 0 ? buffer.template mutable_data<T>() : nullptr;
    segments.push_back({{parameter.mutable_data<T>(), gradient.data<T>(), {state}, parameter.numel()}, first_step});
    keep.push_back(std::move(gradient));
  }
  if (segments.empty()) return;
  const T lr = static_cast<T>(lr_), momentum = static_cast<T>(options_.momentum),
          decay = static_cast<T>(options_.weight_decay), undamped = static_cast<T>(1 - options_.dampening);
  const bool nesterov = options_.nesterov;
  for_each_piece(segments, [=](const SgdSegment& s, std::int64_t begin, std::int64_t end) {
    T* const p = s.parameter;
    const T* const g = s.gradient;
    T* const b = s.state[0];
    if (b == nullptr) {
      for (std::int64_t k = begin; k < end; ++k) p[k] -= lr * (g[k] + decay * p[k]);
    } else {
      const T keep_factor = s.first_step ? T(0) : momentum, new_factor = s.first_step ? T(1) : undamped;
      if (s.first_step) std::fill(b + begin, b + end, T(0));
      for (std::int64_t k = begin; k < end; ++k) {
        const T gradient = g[k] + decay * p[k];
        b[k] = keep_factor * b[k] + new_factor * gradient;
        p[k] -= lr * (nesterov ? gradient + momentum * b[k] : b[k]);
      }
    }
  });
}

StateDict Sgd::state_dict() const {
  StateDict state;
  for (std::size_t i = 0; i < momentum_buffers_.size(); ++i)
    if (momentum_buffers_[i].defined())
      state.emplace_back(std::to_string(i) + ".momentum_buffer", momentum_buffers_[i]);
  return state;
}

void Sgd::load_state_dict(const StateDict& state) {
  std::vector<Tensor> loaded(parameters_.size());
  for (const auto& [key, tensor] : state) {
    const auto [index, kind] = parse_key(key);
    if (kind != "momentum_buffer") core::fail("sgd: '{}' is not part of its state, which has momentum_buffer", key);
    check_shape(key, index, tensor);
    loaded[index] = Tensor::empty_like(parameters_[index].data()).copy_from(tensor);
  }
  momentum_buffers_ = std::move(loaded);
}

}  // namespace tandem::optim
