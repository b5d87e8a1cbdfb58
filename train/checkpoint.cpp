#include "tandem/train/checkpoint.h"

#include <zlib.h>

#include <limits>
#include <string_view>

namespace tandem::train {
namespace {

using core::Tensor;

constexpr const char* kFormat = "format";
constexpr const char* kFormatName = "tandem checkpoint 2";
constexpr const char* kChecksum = "checksum";

Tensor number(std::int64_t value) { return Tensor::from<std::int64_t>({value}, {}); }

std::int64_t number(const core::TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.dtype() != core::DType::int64 || found->second.numel() != 1)
    core::fail("needs \"{}\", one int64", name);
  const std::int64_t value = found->second.to_vector<std::int64_t>().front();
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) core::fail("\"{}\" is {}", name, value);
  return value;
}

void append(core::StateDict& all, const std::string& prefix, const core::StateDict& part) {
  for (const auto& [name, tensor] : part) all.emplace_back(prefix + name, tensor);
}

core::StateDict take(const core::TensorMap& tensors, const std::string& prefix) {
  core::StateDict part;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) part.emplace_back(name.substr(prefix.size()), tensor);
  return part;
}

std::string value_of(const core::Metadata& stored, const std::string& name) {
  const auto found = stored.find(name);
  return found == stored.end() ? kUnsetValue : found->second;
}

void check_identity(const core::Metadata& stored, const RunIdentity& run) {
  for (const auto& [name, value] : run.fixed)
    if (const std::string before = value_of(stored, name); before != value)
      core::fail("comes from a run with {} {}, this one has {}", name, before, value);
}

std::vector<std::string> changes(const core::Metadata& stored, const RunIdentity& run) {
  std::vector<std::string> changed;
  for (const auto& [name, value] : run.chosen)
    if (const std::string before = value_of(stored, name); before != value)
      changed.push_back(fmt::format("{} {}, now {}", name, before, value));
  return changed;
}

// The rate as a function of the update must stay the one that the run began with.
void load_schedule(core::StateDict part, bool is_new_length_meant, optim::LrSchedule& schedule) {
  if (is_new_length_meant) std::erase_if(part, [](const auto& entry) { return entry.first == "total_steps"; });
  try {
    schedule.load_state_dict(part);
  } catch (const core::Error& error) {
    throw OtherLength(error.what());
  }
}

std::uint32_t add(std::uint32_t crc, const void* bytes, std::size_t size) {
  if (size == 0) return crc;  // zlib would begin anew
  return static_cast<std::uint32_t>(crc32_z(crc, static_cast<const Bytef*>(bytes), size));
}

// With its end, so that no two lists of texts look alike.
std::uint32_t add(std::uint32_t crc, std::string_view text) { return add(add(crc, text.data(), text.size()), "", 1); }

}  // namespace

std::string checksum(const Checkpoint& checkpoint) {
  std::uint32_t crc = 0;
  for (const auto& [key, value] : checkpoint.metadata)
    if (key != kChecksum) crc = add(add(crc, key), value);
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const Tensor dense = tensor.to(core::kCpu).contiguous();
    crc = add(add(add(crc, name), core::name(tensor.dtype())), tensor.shape().str());
    crc = add(crc, dense.raw_data(), dense.bytes());
  }
  return fmt::format("crc32 {:08x}", crc);
}

void save_checkpoint(const std::filesystem::path& path, const TrainingState& state, const RunIdentity& run) {
  core::StateDict tensors;
  append(tensors, "model.", state.model().state_dict());
  append(tensors, "optimizer.", state.optimizer->state_dict());
  append(tensors, "schedule.", state.schedule->state_dict());
  tensors.emplace_back("sampler.epoch", number(state.position.epoch));
  tensors.emplace_back("sampler.micro_step", number(state.position.micro_step));
  core::Metadata metadata(run.fixed.begin(), run.fixed.end());
  metadata.insert(run.chosen.begin(), run.chosen.end());
  metadata[kFormat] = kFormatName;
  metadata[kChecksum] = checksum({metadata, {tensors.begin(), tensors.end()}});
  core::save_safetensors(path, tensors, metadata);
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  Checkpoint checkpoint;
  checkpoint.tensors = core::load_safetensors(path, &checkpoint.metadata);
  if (checkpoint.metadata[kFormat] != kFormatName)
    core::fail("{}: is no checkpoint of this version of train", path.string());
  const std::string stored = checkpoint.metadata[kChecksum], found = checksum(checkpoint);
  if (stored != found)
    core::fail("{}: is damaged: its contents have the checksum {}, written was {}", path.string(), found, stored);
  return checkpoint;
}

std::vector<std::string> restore(const Checkpoint& checkpoint, const RunIdentity& run, bool is_new_length_meant,
                                 TrainingState& state) {
  const auto& [metadata, tensors] = checkpoint;
  check_identity(metadata, run);
  state.model().load_state_dict(take(tensors, "model."));
  state.optimizer->load_state_dict(take(tensors, "optimizer."));
  number(tensors, "schedule.step");
  load_schedule(take(tensors, "schedule."), is_new_length_meant, *state.schedule);
  state.position = {.epoch = static_cast<std::uint32_t>(number(tensors, "sampler.epoch")),
                    .micro_step = number(tensors, "sampler.micro_step")};
  return changes(metadata, run);
}

}  // namespace tandem::train
