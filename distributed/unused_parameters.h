// UnusedParameters: what becomes of parameters that an iteration does not use.
//
// A bucket waits for all its gradients, so a parameter that backward does not reach has to be ready at once; the engine
// tells which ones when backward begins. What a rank does not use another may, so in `found` mode a bitmap is reduced
// beside the buckets. A gradient that nobody used must come out as it went in, bit for bit (dividing it by W and adding
// it up W times changes bits at W = 3), so it is set aside and put back.
//
// "Used" is a parameter that any backward since the last synced one reached, synced or not.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tandem/distributed/process_group.h"
#include "tandem/distributed/reduced_parameter.h"

namespace tandem::distributed {

enum class UnusedMode : std::uint8_t {
  forbidden,    ///< a synced backward that does not reach all is an error
  found,        ///< each iteration anew
  as_at_first,  ///< found in the first iteration, and then taken to be the same ("static graph"); a change is an error
};

class UnusedParameters {
 public:
  /// `parameters` must outlive it.
  UnusedParameters(const std::vector<ReducedParameter>& parameters, UnusedMode mode);

  /// A backward, synced or not, reaches these.
  void note_reached(std::span<const std::size_t> reached);
  /// A synced backward, number `iteration`, begins. Throws Error naming parameters where the mode says so; then nothing
  /// was sent. Else what is unused on this rank is set aside, and, where needed, the bitmap is on its way.
  void begin(std::span<const std::size_t> reached, std::int64_t iteration, ProcessGroup& group);
  /// A synced iteration in which this rank has no loss.
  void begin_without_loss(std::int64_t iteration, ProcessGroup& group);
  /// The iteration failed: it used nothing.
  void forget();
  /// All buckets are reduced: puts back what nobody used. Names of those.
  std::vector<std::string> finish();

 private:
  struct SetAside {
    std::size_t parameter;
    Tensor gradient;  // undefined: there was none
  };

  void check_all_reached(std::span<const std::size_t> reached, std::int64_t iteration) const;
  void check_as_at_first(std::int64_t iteration) const;
  void find(std::int64_t iteration, ProcessGroup& group);

  const std::vector<ReducedParameter>& parameters_;
  const UnusedMode mode_;
  std::vector<bool> used_;        // on this rank, since the last synced backward
  std::vector<bool> first_used_;  // as_at_first: in the first iteration; empty before
  std::vector<bool> used_anywhere_;
  Tensor bitmap_;  // uint8 [parameters]
  WorkPtr bitmap_work_;
  std::vector<SetAside> set_aside_;
};

}  // namespace tandem::distributed
