#include "tandem/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "tandem/autograd/grad_mode.h"
#include "tandem/autograd/ops.h"

namespace tandem::autograd {
namespace {

// A view of logical element `index`.
Tensor element(const Tensor& tensor, std::int64_t index) {
  std::int64_t offset = tensor.offset();
  for (int dim = tensor.rank() - 1; dim >= 0; --dim) {
    offset += index % tensor.shape()[dim] * tensor.strides()[dim];
    index /= tensor.shape()[dim];
  }
  return Tensor(tensor.storage(), {}, {}, offset, tensor.dtype());
}

// Weights of the outputs: different for each, none zero, so that no mistake cancels out.
Tensor output_weights(const Shape& shape, core::Device device) {
  std::vector<double> weights(static_cast<std::size_t>(core::numel(shape)));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 1 + 0.5 * std::sin(1.7 * static_cast<double>(i) + 0.3);
  return Tensor::from(weights, shape, device);
}

Variable weighted_sum(const Variable& output) {
  return sum(output * Variable(output_weights(output.shape(), output.data().device())));
}

}  // namespace

GradcheckResult gradcheck(const std::function<Variable(const std::vector<Variable>&)>& function,
                          std::vector<Variable> inputs, const GradcheckOptions& options) {
  for (Variable& input : inputs) {
    if (!input.requires_grad()) continue;
    if (input.dtype() != DType::float64)
      core::fail("gradcheck: an input is {}, float64 is needed", name(input.dtype()));
    input.set_grad({});
  }
  const Variable loss = weighted_sum(function(inputs));
  if (loss.requires_grad()) loss.backward();

  const auto evaluate = [&] {
    const NoGradGuard no_grad;
    return weighted_sum(function(inputs)).data().item();
  };
  GradcheckResult result;
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    if (!inputs[n].requires_grad()) continue;
    const Tensor& gradient = inputs[n].grad();
    const Tensor data = inputs[n].data();
    for (std::int64_t i = 0; i < data.numel(); ++i) {
      Tensor x = element(data, i);
      const double original = x.item();
      x.fill(original + options.eps);
      const double above = evaluate();
      x.fill(original - options.eps);
      const double below = evaluate();
      x.fill(original);
      const double numeric = (above - below) / (2 * options.eps);
      const double analytic = gradient.defined() ? element(gradient, i).item() : 0;
      const double error = std::abs(analytic - numeric);
      result.worst_error = std::max(result.worst_error, error);
      if (result.ok && !(error <= options.atol + options.rtol * std::abs(numeric))) {
        result.ok = false;
        result.message =
            fmt::format("input {} of shape {}, element {}: backward says {:.10g}, finite differences {:.10g}", n,
                        data.shape().str(), i, analytic, numeric);
      }
    }
  }
  return result;
}

}  // namespace tandem::autograd
