#include "tools/train/settings/narrow_options.h"

#include "tandem/core/thread_count.h"
#include "tandem/distributed/comm_hook.h"
#include "tools/train/settings/command_line.h"

namespace tandem::train {
namespace {

distributed::RankSettings rank_settings(const Settings& settings) {
  distributed::RankOptions options{.rank = settings.rank,
                                   .world_size = settings.world_size,
                                   .local_rank = settings.local_rank,
                                   .local_world_size = settings.local_world_size,
                                   .init = settings.init,
                                   .interface = settings.interface};
  options.timeout = distributed::Milliseconds(settings.timeout_s * 1000);
  try {
    return distributed::resolve_rank(options);
  } catch (const core::Error& error) {
    throw UsageError(error.what());
  }
}

distributed::DataParallelOptions data_parallel_options(const Settings& settings) {
  return {.bucket_cap_mb = settings.bucket_cap_mb,
          .first_bucket_mb = settings.first_bucket_mb,
          .broadcast_buffers = !settings.no_broadcast_buffers,
          .bucket_order = settings.bucket_order == "observed" ? distributed::BucketOrder::observed
                                                              : distributed::BucketOrder::reverse,
          .overlap = !settings.no_overlap,
          .find_unused_parameters = settings.find_unused_parameters,
          .static_graph = settings.static_graph,
          .comm_hook = [name = settings.comm_hook] { return distributed::make_comm_hook(name); }};
}

}  // namespace

RanksOptions ranks_options(const Settings& settings) {
  return {.self = rank_settings(settings),
          .backend = settings.backend == "mpi" ? distributed::Backend::mpi : distributed::Backend::gloo,
          .round_robin_groups = static_cast<int>(settings.round_robin_groups),
          .check_collectives = settings.check_collectives,
          .settings = settings_of_run(settings)};
}

TrainerOptions trainer_options(const Settings& settings, const DataSource& data, const Length& length) {
  return {.train = data.train,
          .test = data.test,
          .shuffle = data.shuffle,
          .batch_size = settings.batch_size,
          .accumulation_steps = settings.accumulation_steps,
          .total_steps = length.total_steps,
          .eval_every = settings.eval_every,
          .checkpoint_every = settings.checkpoint_every,
          .clip_grad_norm = settings.clip_grad_norm,
          .data_threads = static_cast<int>(settings.data_threads),
          .seed = static_cast<std::uint64_t>(settings.seed),
          .data_parallel = data_parallel_options(settings),
          .advice = "a lower --lr, --warmup-steps or --clip-grad-norm may help"};
}

Settings settings_of_rank(const Settings& settings, int rank, int local_size) {
  Settings own = settings;
  own.threads = core::threads_of_rank(own.threads, local_size);
  if (rank == 0) return own;
  own.out = own.checkpoint_dir = own.save_weights = own.save_model = own.save_grads = std::nullopt;
  if (own.profile_out) *own.profile_out += fmt::format(".rank{}", rank);
  if (own.metrics) *own.metrics += fmt::format(".rank{}", rank);
  return own;
}

}  // namespace tandem::train
