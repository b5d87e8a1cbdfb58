// What a data set is: samples by number, read many at once into one batch.
//
// Which samples, and when, is the sampler's business (sampler.h); reading ahead is the loader's (loader.h).
#pragma once

#include <cstdint>
#include <span>

#include "tandem/core/random.h"
#include "tandem/core/tensor.h"

namespace tandem::data {

/// Rows of a micro-step, contiguous. Zero rows are a batch too.
struct Batch {
  core::Tensor input;   ///< float32 [N, ...], for images [N, C, H, W]; of text the tokens' ids, int64 [N, S]
  core::Tensor target;  ///< int64: classes [N]; of text [N, S] the tokens to predict, kNotPredicted elsewhere
  // Of text only, int64; undefined elsewhere.
  core::Tensor attention_mask;  ///< [N, S]: 1 at tokens, 0 at padding
  core::Tensor token_type_ids;  ///< [N, S]: 0 in a pair's first sentence, 1 in its second
  core::Tensor next_sentence;   ///< [N]: 0 where the second follows the first in the text, 1 where it does not;
                                ///< undefined without pairs
  /// [P]: where a token is to be predicted, as places in the flattened [N, S], in increasing order; and the targets
  /// there. Undefined unless `target` is [N, S]. Dataset::read() finds them, so that nobody else scans the targets.
  core::Tensor predicted_positions = {}, predicted_targets = {};

  std::int64_t rows() const { return input.size(0); }
  /// The same batch with all of its tensors there.
  Batch to(core::Device device) const;
};

/// The target at a place where nothing is to be predicted: what cross-entropies ignore.
inline constexpr std::int64_t kNotPredicted = -100;
/// Of a data set, at most: more, which a model would make room for, are a mistake.
inline constexpr std::int64_t kMostClasses = 1 << 20;

/// Which half of a data set.
enum class Split : std::uint8_t { train, test };

/// For augmentation: what is drawn for a sample is a function of these and its index, whatever thread or rank reads it.
struct EpochContext {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
};

/// What data/ draws random numbers for (RandomContext::stream). Layers count up from 0, so these lie at the upper end.
enum class Draw : std::uint32_t { shuffle = 0xff00, augment, class_mean, noise, mask, pair };

/// The random numbers of one sample. Samples are counted by the context's `step`, so there are fewer than 2^32.
inline core::PhiloxStream sample_stream(const EpochContext& context, std::int64_t index, Draw draw) {
  return core::RandomContext{.seed = context.seed, .epoch = context.epoch, .step = static_cast<std::uint32_t>(index)}
      .stream(static_cast<std::uint32_t>(draw));
}

/// Reading is const and safe from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Number of samples.
  virtual std::int64_t size() const = 0;

  /// The samples of these numbers, in their order, ready for a model. Throws Error for a number that is not there, and
  /// where a sample cannot be read.
  Batch read(std::span<const std::int64_t> indices, const EpochContext& context = {}) const;

 protected:
  /// As read(); indices are valid.
  virtual Batch read_batch(std::span<const std::int64_t> indices, const EpochContext& context) const = 0;
};

}  // namespace tandem::data
