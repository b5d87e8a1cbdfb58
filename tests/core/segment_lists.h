// Lists of segments for tests of the operators of optimizers, and the numbers in them as naive formulas see them.
#pragma once

#include <cmath>
#include <vector>

#include "tandem/core/ops/segment.h"
#include "tests/core/awkward.h"

namespace tandem::core::testing {

using Values = std::vector<double>;

inline double norm(const Values& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// One segment in float64.
struct Naive {
  Values p, g, first, second;  // first, second: state; empty if there is none
};

inline Naive naive(const Segment& s) {
  const auto values = [](const Tensor& x) { return x.defined() ? x.to_vector<double>() : Values{}; };
  return {values(s.parameter), values(s.gradient), values(s.state[0]), values(s.state[1])};
}

/// In float32 and float64: several pieces, several blocks, fewer than a vector, none, in any dense memory order; then a
/// hundred small ones. `states` tensors of state, in [0, 1). Rates and decays differ.
template <class S>
std::vector<S> make_list(std::size_t states) {
  std::vector<Shape> shapes{{131, 501}, {70001}, {1, 513}, {2, 8}, {3}, {}, {0, 4}, {2, 3, 4, 5}};
  for (int i = 0; i < 100; ++i) shapes.push_back({1 + i % 40});
  std::vector<S> list;
  std::uint64_t seed = 0;
  for (const DType dtype : {DType::float32, DType::float64})
    for (const Shape& shape : shapes) {
      const Layout layout = list.size() % 2 == 0 || shape.rank() < 2 ? Layout::contiguous
                            : shape.rank() == 4                      ? Layout::channels_last
                                                                     : Layout::transposed;
      const auto make = [&](double low) { return laid_out(random_tensor(shape, dtype, ++seed, low, 1), layout); };
      S& s = list.emplace_back();
      s.parameter = make(-1);
      s.gradient = make(-1);
      for (std::size_t k = 0; k < states; ++k) s.state[k] = make(0);
      s.lr = 0.01 * static_cast<double>(1 + seed % 3);
      s.weight_decay = 0.1 * static_cast<double>(seed % 4);
    }
  list[2].gradient.fill(0);
  list[3].parameter.fill(0);
  return list;
}

/// Runs `step` twice on the list, and formula(index, naive segment) beside it.
template <class S, class Step, class Formula>
void compare(std::vector<S> list, Step&& step, Formula&& formula) {
  std::vector<Naive> wanted;
  for (const S& s : list) wanted.push_back(naive(s));
  for (int round = 0; round < 2; ++round) {
    step(list);
    for (std::size_t i = 0; i < list.size(); ++i) {
      formula(list[i], wanted[i]);
      const double tolerance = list[i].parameter.dtype() == DType::float32 ? 3e-6 : 1e-13;
      const std::string what = "round " + std::to_string(round) + ", segment " + std::to_string(i);
      expect_near(list[i].parameter, wanted[i].p, tolerance, what);
      expect_near(list[i].gradient, wanted[i].g, 0, what + ", gradient");
      if (list[i].state[0].defined()) expect_near(list[i].state[0], wanted[i].first, tolerance, what + ", state 0");
      if (list[i].state[1].defined()) expect_near(list[i].state[1], wanted[i].second, tolerance, what + ", state 1");
    }
  }
}

/// All numbers of a fresh list after `step`, for any number of threads the same.
template <class S, class Step>
void expect_same_bits(std::size_t states, Step&& step) {
  const auto run = [&] {
    std::vector<S> list = make_list<S>(states);
    step(list);
    Values all;
    for (const S& s : list)
      for (const Tensor* x : {&s.parameter, &s.state[0], &s.state[1]})
        if (x->defined())
          for (const double value : x->template to_vector<double>()) all.push_back(value);
    return all;
  };
  const Values alone = with_threads(1, run);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(with_threads(threads, run), alone) << threads << " threads";
}

}  // namespace tandem::core::testing
