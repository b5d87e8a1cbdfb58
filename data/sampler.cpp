#include "tandem/data/sampler.h"

#include <algorithm>

#include "tandem/core/error.h"
#include "tandem/core/random.h"
#include "tandem/data/dataset.h"

namespace tandem::data {

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (options.samples < 0) core::fail("sampler: {} samples, needed 0 or more", options.samples);
  if (options.batch_size < 1) core::fail("sampler: batch size {}, needed 1 or more", options.batch_size);
  if (options.rank < 0 || options.rank >= options.world_size)
    core::fail("sampler: rank {} of world size {}, needed 0 to {}", options.rank, options.world_size,
               options.world_size - 1);
  if (__builtin_mul_overflow(options.batch_size, std::int64_t{options.world_size}, &global_batch_))
    core::fail("sampler: batch size {} times world size {} overflows", options.batch_size, options.world_size);
  seek({});
}

std::int64_t Sampler::micro_steps() const {
  return options_.samples / global_batch_ + (options_.samples % global_batch_ != 0);
}

std::int64_t Sampler::rows(std::int64_t first, std::int64_t count) const {
  const std::int64_t last = (first + count - 1) * global_batch_;  // where the last of them begins
  return last - first * global_batch_ + std::min(global_batch_, options_.samples - last);
}

void Sampler::seek(const SamplerPosition& position) {
  if (position.micro_step < 0 || position.micro_step > micro_steps())
    core::fail("sampler: micro-step {} of an epoch of {}", position.micro_step, micro_steps());
  const bool known = !order_.empty() && position.epoch == position_.epoch;
  position_ = position;
  if (!options_.shuffle || known) return;
  const core::RandomContext context{.seed = options_.seed, .epoch = position.epoch};
  order_ = core::random_permutation(options_.samples, context.stream(static_cast<std::uint32_t>(Draw::shuffle)));
}

std::optional<MicroStep> Sampler::next() {
  if (position_.micro_step >= micro_steps()) return std::nullopt;
  const std::int64_t begin = position_.micro_step++ * global_batch_;
  MicroStep share{.indices = {}, .rows = rows(position_.micro_step - 1, 1)};
  share.indices.reserve(static_cast<std::size_t>(share.rows / options_.world_size + 1));
  for (std::int64_t row = options_.rank; row < share.rows; row += options_.world_size)
    share.indices.push_back(options_.shuffle ? order_[static_cast<std::size_t>(begin + row)] : begin + row);
  return share;
}

}  // namespace tandem::data
