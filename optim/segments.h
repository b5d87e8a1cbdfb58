// One parallel pass over many parameters.
//
// Each parameter with its gradient and its optimizer state is a segment: pointers to arrays of one length. The pass
// walks the segments as if they lay one behind the other, and splits that walk evenly over the threads, so a thousand
// small tensors cost one parallel region.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "tandem/autograd/variable.h"
#include "tandem/core/parallel.h"

namespace tandem::optim {

/// `States` arrays of optimizer state beside parameter and gradient.
template <class T, int States>
struct Segment {
  T* parameter;
  const T* gradient;
  std::array<T*, States> state;
  std::int64_t count;
};

/// Calls kernel(segment, begin, end) on pieces that cover all elements of all segments once. Elementwise work only.
template <class Segment, class Kernel>
void for_each_piece(const std::vector<Segment>& segments, Kernel&& kernel) {
  constexpr std::int64_t kGrain = 1 << 14;
  std::int64_t total = 0;
  for (const Segment& segment : segments) total += segment.count;
  core::parallel_for(total, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;  // where the segment starts in the walk
    for (const Segment& segment : segments) {
      const std::int64_t from = std::max(begin - first, std::int64_t{0}), to = std::min(end - first, segment.count);
      if (from < to) kernel(segment, from, to);
      first += segment.count;
    }
  });
}

/// A gradient or optimizer state laid out as its parameter, which is dense, so that they can be walked as flat arrays:
/// itself in all but odd cases (Variable::set_data gave the parameter another layout or dtype).
inline core::Tensor laid_out_as(const core::Tensor& tensor, const core::Tensor& parameter) {
  if (tensor.dtype() == parameter.dtype() && tensor.has_layout_of(parameter)) return tensor;
  core::Tensor copy = core::Tensor::empty_like(parameter);
  copy.copy_from(tensor);
  return copy;
}

/// Parameter, gradient and up to `States` tensors of state, which begin with zeros; where fewer are given, the others'
/// pointers are null. `keep` must live as long as the segment: it holds the gradient, which may be a copy.
template <class T, int States>
Segment<T, States> make_segment(const autograd::Variable& parameter, std::span<core::Tensor> state,
                                std::vector<core::Tensor>& keep) {
  core::Tensor data = parameter.data();
  keep.push_back(laid_out_as(parameter.grad(), data));
  Segment<T, States> segment{
      .parameter = data.mutable_data<T>(), .gradient = keep.back().data<T>(), .state = {}, .count = data.numel()};
  for (std::size_t k = 0; k < state.size(); ++k) {
    state[k] = state[k].defined() ? laid_out_as(state[k], data) : core::Tensor::zeros_like(data);
    segment.state[k] = state[k].mutable_data<T>();
  }
  return segment;
}

}  // namespace tandem::optim
