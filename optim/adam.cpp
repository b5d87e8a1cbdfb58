#include "tandem/optim/adam.h"

#include <cmath>

#include "tandem/core/recorder.h"
#include "tandem/optim/segments.h"

namespace tandem::optim {

Adam::Adam(std::vector<Variable> parameters, const AdamOptions& options)
    : Optimizer(std::move(parameters), options.lr), options_(options), states_(parameters_.size()) {
  for (const double beta : {options.beta1, options.beta2})
    if (!(beta >= 0 && beta < 1)) core::fail("adam: beta {} is not in [0, 1)", beta);
}

void Adam::step() {
  const core::RecordScope scope("adam", "phase");
  check_parameters("adam");
  step_dtype<float>();
  step_dtype<double>();
}

template <class T>
void Adam::step_dtype() {
  struct AdamSegment : Segment<T, 2> {
    T step_size, inv_sqrt_correction2;
  };
  std::vector<AdamSegment> segments;
  std::vector<Tensor> keep;  // gradients that had to be laid out anew
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined() || parameters_[i].dtype() != core::dtype_of<T>) continue;
    Tensor parameter = parameters_[i].data(), gradient = laid_out_as(parameters_[i].grad(), parameter);
    State& s = states_[i];
    if (!s.exp_avg.defined()) {
      s.exp_avg = Tensor::zeros_like(parameter);
      s.exp_avg_sq = Tensor::zeros_like(parameter);
    }
    s.exp_avg = laid_out_as(s.exp_avg, parameter);
    s.exp_avg_sq = laid_out_as(s.exp_avg_sq, parameter);
    ++s.steps;
    const auto t = static_cast<double>(s.steps);
    const double correction1 = 1 - std::pow(options_.beta1, t), correction2 = 1 - std::pow(options_.beta2, t);
    segments.push_back({{parameter.mutable_data<T>(),
                         gradient.data<T>(),
                         {s.exp_avg.template mutable_data<T>(), s.exp_avg_sq.template mutable_data<T>()},
                         parameter.numel()},
                        static_cast<T>(lr_ / correction1),
                        static_cast<T>(1 / std::sqrt(correction2))});
    keep.push_back(std::move(gradient));
  }
  if (segments.empty()) return;
  const T beta1 = static_cast<T>(options_.beta1), beta2 = static_cast<T>(options_.beta2),
          eps = static_cast<T>(options_.eps);
  const T rest1 = static_cast<T>(1 - options_.beta1), rest2 = static_cast<T>(1 - options_.beta2);
  const T decay = static_cast<T>(options_.decoupled_weight_decay ? 0 : options_.weight_decay);
  const T shrink = static_cast<T>(options_.decoupled_weight_decay ? 1 - lr_ * options_.weight_decay : 1);
  for_each_piece(segments, [=](const AdamSegment& s, std::int64_t begin, std::int64_t end) {
    T* const p = s.parameter;
    const T* const g = s.gradient;
    T* const m = s.state[0];
    T* const v = s.state[1];
    for (std::int64_t k = begin; k < end; ++k) {
      const T gradient = g[k] + decay * p[k];
      m[k] = beta1 * m[k] + rest1 * gradient;
      v[k] = beta2 * v[k] + rest2 * gradient * gradient;
      p[k] = shrink * p[k] - s.step_size * m[k] / (std::sqrt(v[k]) * s.inv_sqrt_correction2 + eps);
    }
  });
}

StateDict Adam::state_dict() const {
  StateDict state;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].exp_avg.defined()) continue;
    const std::string prefix = std::to_string(i) + ".";
    state.emplace_back(prefix + "exp_avg", states_[i].exp_avg);
    state.emplace_back(prefix + "exp_avg_sq", states_[i].exp_avg_sq);
    state.emplace_back(prefix + "step", Tensor::scalar(static_cast<double>(states_[i].steps), core::DType::int64));
  }
  return state;
}

void Adam::load_state_dict(const StateDict& state) {
  std::vector<State> loaded(parameters_.size());
  for (const auto& [key, tensor] : state) {
    const auto [index, kind] = parse_key(key);
    if (kind == "step") {
      loaded[index].steps = static_cast<std::int64_t>(tensor.item());
      continue;
    }
    if (kind != "exp_avg" && kind != "exp_avg_sq")
      core::fail("adam: '{}' is not part of its state, which has exp_avg, exp_avg_sq and step", key);
    check_shape(key, index, tensor);
    Tensor& target = kind == "exp_avg" ? loaded[index].exp_avg : loaded[index].exp_avg_sq;
    target = Tensor::empty_like(parameters_[index].data()).copy_from(tensor);
  }
  for (std::size_t i = 0; i < loaded.size(); ++i)
    if (loaded[i].exp_avg.defined() != loaded[i].exp_avg_sq.defined() ||
        loaded[i].exp_avg.defined() != (loaded[i].steps > 0))
      core::fail("adam: the state of parameter {} is incomplete: exp_avg, exp_avg_sq and step belong together", i);
  states_ = std::move(loaded);
}

}  // namespace tandem::optim
