#include "tandem/core/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tandem/core/ops/dropout.h"
#include "tests/core/awkward.h"
#include "tests/elements.h"

namespace tandem::core {
namespace {

using namespace testing;

const PhiloxStream kStream = RandomContext{.seed = 7, .epoch = 1, .step = 2, .shard = 3}.stream(4);

struct Sizes {
  std::int64_t batch, queries, places, heads, features;
  Shape q() const { return {batch, queries, features}; }
  Shape k() const { return {batch, places, features}; }
  std::int64_t d() const { return features / heads; }
};

// The definition in float64, with the gradients by their formulas. The mask is int64 or bool, or undefined.
struct Reference {
  std::vector<double> output, log_sum_exp, dq, dk, dv;

  Reference(const Sizes& s, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
            const AttentionOptions& options)
      : q_(q.to_vector<double>()),
        k_(k.to_vector<double>()),
        v_(v.to_vector<double>()),
        dy_(dy.to_vector<double>()),
        mask_(options.mask.defined() ? options.mask.to_vector<double>()
                                     : std::vector<double>(at(s.batch * s.places), 1)),
        scale_(options.scale.value_or(1 / std::sqrt(static_cast<double>(s.d())))) {
    // What dropout of the contiguous probabilities would drop.
    const Tensor ones = Tensor::full({s.batch, s.heads, s.queries, s.places}, 1, {.dtype = DType::float64});
    dropped_ = dropout(ones, options.dropout_p, kStream).output.to_vector<double>();
    output = dq = std::vector<double>(q_.size());
    dk = dv = std::vector<double>(k_.size());
    for (std::int64_t n = 0; n < s.batch; ++n)
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t row = 0; row < s.queries; ++row) add_row(s, n, h, row);
  }

 private:
  void add_row(const Sizes& s, std::int64_t n, std::int64_t h, std::int64_t row) {
    const std::int64_t d = s.d(), query = (n * s.queries + row) * s.features + h * d;
    const auto key = [&](std::int64_t t) { return (n * s.places + t) * s.features + h * d; };
    const auto dot = [&](const auto& a, std::int64_t i, const auto& b, std::int64_t j) {
      double sum = 0;
      for (std::int64_t c = 0; c < d; ++c) sum += a[at(i + c)] * b[at(j + c)];
      return sum;
    };
    bool any = false;
    for (std::int64_t t = 0; t < s.places; ++t) any = any || mask_[at(n * s.places + t)] != 0;
    std::vector<double> p(at(s.places)), dp(at(s.places));
    double max = -kInfinity, sum = 0, delta = 0;
    for (std::int64_t t = 0; t < s.places; ++t) {
      p[at(t)] = !any ? 0 : mask_[at(n * s.places + t)] != 0 ? scale_ * dot(q_, query, k_, key(t)) : -kInfinity;
      max = std::max(max, p[at(t)]);
    }
    for (double& value : p) sum += value = std::exp(value - max);
    log_sum_exp.push_back(max + std::log(sum));
    const double* factors = dropped_.data() + ((n * s.heads + h) * s.queries + row) * s.places;
    for (std::int64_t t = 0; t < s.places; ++t) {
      p[at(t)] /= sum;
      dp[at(t)] = factors[t] * dot(dy_, query, v_, key(t));
      delta += p[at(t)] * dp[at(t)];
      for (std::int64_t c = 0; c < d; ++c) {
        output[at(query + c)] += factors[t] * p[at(t)] * v_[at(key(t) + c)];
        dv[at(key(t) + c)] += factors[t] * p[at(t)] * dy_[at(query + c)];
      }
    }
    for (std::int64_t t = 0; any && t < s.places; ++t)
      for (std::int64_t c = 0; c < d; ++c) {
        const double ds = scale_ * p[at(t)] * (dp[at(t)] - delta);
        dq[at(query + c)] += ds * k_[at(key(t) + c)];
        dk[at(key(t) + c)] += ds * q_[at(query + c)];
      }
  }

  std::vector<double> q_, k_, v_, dy_, mask_, dropped_;
  double scale_;
};

const std::vector<Sizes> kSizes{{1, 1, 1, 1, 1},     {2, 3, 5, 2, 6},    {2, 9, 4, 3, 51},    {1, 64, 128, 1, 64},
                                {1, 65, 129, 2, 32}, {2, 130, 17, 1, 8}, {1, 3, 300, 2, 160}, {3, 70, 70, 2, 34}};

// int64 [N, T]: no mask, every third place, all but the first few, none at all for the last sequence.
std::vector<Tensor> masks(const Sizes& s) {
  const auto make = [&](auto&& keep) {
    return integers({s.batch, s.places}, [&](std::int64_t i) {
      return keep(i / s.places, i % s.places) ? std::int64_t{1} : std::int64_t{0};
    });
  };
  return {Tensor(), make([](std::int64_t, std::int64_t t) { return t % 3 == 1; }),
          make([](std::int64_t n, std::int64_t t) { return t <= 2 * n + 1; }),
          make([&](std::int64_t n, std::int64_t) { return n < s.batch - 1; })};
}

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 3e-5 : 5e-2; }

TEST(Attention, MatchesTheDefinitionForwardAndBackward) {
  for (const DType dtype : kFloating)
    for (const Sizes& s : kSizes)
      for (const Tensor& mask : masks(s))
        for (const double p : {0., 0.3}) {
          const Tensor q = normal(s.q(), 1, dtype), k = normal(s.k(), 2, dtype), v = normal(s.k(), 3, dtype),
                       dy = normal(s.q(), 4, dtype);
          const AttentionOptions options{.heads = s.heads, .mask = mask, .dropout_p = p, .stream = kStream};
          const std::string what = describe(q) + " places " + std::to_string(s.places) + " p " + std::to_string(p);
          const Reference wanted(s, q, k, v, dy, options);
          const AttentionForward forward = attention(q, k, v, options);
          const AttentionGradients gradients = attention_backward(dy, q, k, v, forward, options);
          EXPECT_EQ(forward.output.shape(), s.q());
          EXPECT_EQ(forward.log_sum_exp.shape(), (Shape{s.batch, s.heads, s.queries}));
          EXPECT_EQ(forward.log_sum_exp.dtype(), dtype == DType::float64 ? DType::float64 : DType::float32);
          expect_near(forward.output, wanted.output, tolerance(dtype), "output " + what);
          expect_near(forward.log_sum_exp, wanted.log_sum_exp, std::min(3e-5, tolerance(dtype)), "lse " + what);
          expect_near(gradients.q, wanted.dq, tolerance(dtype), "dq " + what);
          expect_near(gradients.k, wanted.dk, tolerance(dtype), "dk " + what);
          expect_near(gradients.v, wanted.dv, tolerance(dtype), "dv " + what);
        }
}

TEST(Attention, ReadsPartsOfOneProductAndAnyOtherStrides) {
  const Sizes s{2, 7, 7, 3, 12};
  for (const DType dtype : kFloating) {
    const Tensor all = normal({s.batch, s.queries, 3 * s.features}, 1, dtype), dy = normal(s.q(), 4, dtype);
    const auto part = [&](std::int64_t i) { return all.slice(2, i * s.features, (i + 1) * s.features); };
    const auto values = [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& gradient) {
      const AttentionOptions options{.heads = s.heads};
      const AttentionForward f = attention(q, k, v, options);
      const AttentionGradients g = attention_backward(gradient, q, k, v, f, options);
      std::vector<double> joined;
      for (const Tensor& t : {f.output, g.q, g.k, g.v}) {
        EXPECT_TRUE(t.is_contiguous());
        const auto next = t.to_vector<double>();
        joined.insert(joined.end(), next.begin(), next.end());
      }
      return joined;
    };
    const Tensor q = part(0).clone().contiguous(), k = part(1).clone().contiguous(), v = part(2).clone().contiguous();
    const auto wanted = values(q, k, v, dy);
    EXPECT_EQ(values(part(0), part(1), part(2), dy), wanted);
    EXPECT_EQ(values(exchanged(q, 0, 1), exchanged(k, 1, 2), with_gaps(v, 2), exchanged(dy, 0, 1)), wanted);
  }
}

TEST(Attention, MasksOfBothTypesAndAnyStridesAreOne) {
  const Sizes s{3, 5, 6, 2, 8};
  const Tensor q = normal(s.q(), 1), k = normal(s.k(), 2), v = normal(s.k(), 3), mask = masks(s)[2];
  const auto output = [&](const Tensor& m) {
    return attention(q, k, v, {.heads = s.heads, .mask = m}).output.to_vector<double>();
  };
  EXPECT_EQ(output(mask.to(DType::boolean)), output(mask));
  EXPECT_EQ(output(exchanged(mask, 0, 1)), output(mask));
  EXPECT_NE(output(Tensor()), output(mask));
}

// What is masked has no influence, and gets no gradient.
TEST(Attention, MaskedPlacesAreNotSeen) {
  const Sizes s{2, 4, 40, 2, 8};
  const Tensor q = normal(s.q(), 1), k = normal(s.k(), 2), v = normal(s.k(), 3), dy = normal(s.q(), 4);
  for (const Tensor& mask : {masks(s)[1], masks(s)[2]}) {
    const auto kept = mask.to_vector<std::int64_t>();
    const AttentionOptions options{.heads = s.heads, .mask = mask};
    Tensor other_k = k.clone(), other_v = v.clone();
    for (std::int64_t i = 0; i < k.numel(); ++i)
      if (kept[at(i / s.features)] == 0)
        for (Tensor* other : {&other_k, &other_v}) testing::set_element(*other, i, 1e3);
    const AttentionForward forward = attention(q, k, v, options);
    EXPECT_EQ(attention(q, other_k, other_v, options).output.to_vector<double>(), forward.output.to_vector<double>());
    const AttentionGradients gradients = attention_backward(dy, q, k, v, forward, options);
    const auto dk = gradients.k.to_vector<double>(), dv = gradients.v.to_vector<double>();
    for (std::int64_t i = 0; i < k.numel(); ++i)
      if (kept[at(i / s.features)] == 0) {
        ASSERT_EQ(dk[at(i)], 0);
        ASSERT_EQ(dv[at(i)], 0);
      }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const Sizes s{1, 3, 20, 1, 4};
  for (const DType dtype : kFloating) {
    const Tensor q = Tensor::full(s.q(), 200, {.dtype = dtype}), v = numbers(s.k(), dtype, 3);
    Tensor k = Tensor::full(s.k(), -200, {.dtype = dtype});
    k.select(1, 7).fill(200);  // this place gets it all
    const AttentionForward forward = attention(q, k, v, {});
    const auto wanted = v.select(1, 7).expand({1, 3, 4}).to_vector<double>();
    EXPECT_EQ(forward.output.to_vector<double>(), wanted);
  }
}

TEST(Attention, SameBitsForAnyNumberOfThreads) {
  const Sizes s{3, 100, 150, 5, 40};
  for (const DType dtype : kFloating) {
    const Tensor q = normal(s.q(), 1, dtype), k = normal(s.k(), 2, dtype), v = normal(s.k(), 3, dtype),
                 dy = normal(s.q(), 4, dtype);
    const auto results = [&] {
      const AttentionOptions options{.heads = s.heads, .mask = masks(s)[2], .dropout_p = 0.2, .stream = kStream};
      const AttentionForward f = attention(q, k, v, options);
      const AttentionGradients g = attention_backward(dy, q, k, v, f, options);
      std::vector<std::vector<double>> all;
      for (const Tensor& t : {f.output, f.log_sum_exp, g.q, g.k, g.v}) all.push_back(t.to_vector<double>());
      return all;
    };
    const auto one = with_threads(1, results);
    for (const int threads : {2, 3, 8}) EXPECT_EQ(with_threads(threads, results), one) << threads << " threads";
  }
}

TEST(Attention, EmptySizes) {
  for (const Sizes& s : {Sizes{0, 3, 4, 2, 6}, Sizes{2, 0, 4, 2, 6}, Sizes{2, 3, 0, 2, 6}, Sizes{2, 3, 4, 2, 0}}) {
    const Tensor q = normal(s.q(), 1), k = normal(s.k(), 2);
    const AttentionForward forward = attention(q, k, k, {.heads = s.heads});
    const AttentionGradients gradients = attention_backward(q, q, k, k, forward, {.heads = s.heads});
    EXPECT_EQ(forward.output.to_vector<double>(), std::vector<double>(at(q.numel()), 0));
    EXPECT_EQ(gradients.q.to_vector<double>(), std::vector<double>(at(q.numel()), 0));
    EXPECT_EQ(gradients.k.to_vector<double>(), std::vector<double>(at(k.numel()), 0));
    EXPECT_EQ(gradients.v.to_vector<double>(), std::vector<double>(at(k.numel()), 0));
  }
}

TEST(Attention, NanReachesTheOutput) {
  const Sizes s{1, 2, 3, 1, 4};
  for (const DType dtype : kFloating) {
    Tensor q = normal(s.q(), 1, dtype);
    q.select(1, 1).fill(kNan);
    const auto output = attention(q, normal(s.k(), 2, dtype), normal(s.k(), 3, dtype), {}).output.to_vector<double>();
    for (std::size_t i = 0; i < output.size(); ++i) EXPECT_EQ(std::isnan(output[i]), i >= 4) << i;
  }
}

TEST(Attention, ErrorsNameTheRule) {
  const Tensor q = Tensor::zeros({2, 3, 4}), k = Tensor::zeros({2, 5, 4}), mask = Tensor::zeros({2, 5});
  TANDEM_EXPECT_ERROR(attention(Tensor::zeros({3, 4}), k, k, {}),
                      "attention: q [N, S, D], k and v [N, T, D] do not fit: [3, 4], [2, 5, 4] and [2, 5, 4]");
  TANDEM_EXPECT_ERROR(attention(q, k, Tensor::zeros({2, 6, 4}), {}), "[2, 3, 4], [2, 5, 4] and [2, 6, 4]");
  TANDEM_EXPECT_ERROR(attention(q, Tensor::zeros({1, 5, 4}), Tensor::zeros({1, 5, 4}), {}), "do not fit");
  TANDEM_EXPECT_ERROR(attention(q, k.to(DType::float64), k, {}), "dtypes differ: q float32, k float64, v float32");
  TANDEM_EXPECT_ERROR(attention(q.to(DType::int64), k.to(DType::int64), k.to(DType::int64), {}),
                      "attention: needs a floating dtype, got int64");
  TANDEM_EXPECT_ERROR(attention(q, k, k, {.heads = 3}),
                      "attention: 3 heads do not divide the 4 features of q [2, 3, 4]");
  TANDEM_EXPECT_ERROR(attention(q, k, k, {.heads = 0}), "0 heads do not divide");
  TANDEM_EXPECT_ERROR(attention(q, k, k, {.mask = mask}), "the mask needs to be int64 or bool, got float32");
  TANDEM_EXPECT_ERROR(attention(q, k, k, {.mask = Tensor::zeros({2, 3}, {.dtype = DType::int64})}),
                      "attention: mask [2, 3] is not [N, T] of k [2, 5, 4]");
  TANDEM_EXPECT_ERROR(attention(q, k, k, {.dropout_p = 1.5}), "attention: probability 1.5 is not in [0, 1]");
  const AttentionForward forward = attention(q, k, k, {});
  TANDEM_EXPECT_ERROR(attention_backward(k, q, k, k, forward, {}),
                      "attention_backward: gradient float32 [2, 5, 4] does not match q float32 [2, 3, 4]");
  TANDEM_EXPECT_ERROR(attention_backward(q, q, k, k, forward, {.heads = 2}), "for q [2, 3, 4] and 2 heads");
  const Tensor many = Tensor::zeros({1}).expand({1, 1 << 18, 1});
  TANDEM_EXPECT_ERROR(attention(many, many, many, {.dropout_p = 0.1}),
                      "have more probabilities than a random stream has words");
}

}  // namespace
}  // namespace tandem::core
