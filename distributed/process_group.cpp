// What every kind of group checks before it starts.
#include "tandem/distributed/process_group.h"

#include <cstddef>
#include <utility>

#include "tandem/core/error.h"

namespace tandem::distributed {

namespace {

using Kind = Collective::Kind;

void check_dense(Kind kind, const char* what, const Tensor& tensor) {
  if (!tensor.defined()) core::fail("{}: the {} is undefined", name(kind), what);
  if (!tensor.is_dense())
    core::fail("{}: the {} must be dense, without gaps or repeats, got shape {} with strides {}", name(kind), what,
               tensor.shape().str(), tensor.strides().str());
}

void check_rank(Kind kind, int rank, int size) {
  if (rank < 0 || rank >= size) core::fail("{}: no rank {} in a group of {}", name(kind), rank, size);
}

void check_other(Kind kind, int rank, int size, int self) {
  check_rank(kind, rank, size);
  if (rank == self) core::fail("{}: rank {} is this rank itself", name(kind), rank);
}

void check_reduction(Kind kind, const Tensor& tensor, const ReduceOptions& options) {
  const core::DType dtype = tensor.dtype();
  if (dtype == core::DType::boolean && (options.op == ReduceOp::sum || options.op == ReduceOp::product))
    core::fail("{}: booleans have max (or) and min (and), no sum or product", name(kind));
  if (options.scale != 1 && !core::is_floating(dtype))
    core::fail("{}: a scale of {} needs floating numbers, got {}", name(kind), options.scale, core::name(dtype));
}

// `whole` is `part` with W in front.
void check_stacked(Kind kind, const Tensor& part, const char* part_name, const Tensor& whole, const char* whole_name,
                   int size) {
  check_dense(kind, part_name, part);
  check_dense(kind, whole_name, whole);
  if (!part.is_contiguous() || !whole.is_contiguous())
    core::fail("{}: {} and {} must be contiguous", name(kind), part_name, whole_name);
  bool fits = whole.rank() == part.rank() + 1 && whole.size(0) == size && whole.dtype() == part.dtype();
  for (int dim = 0; fits && dim < part.rank(); ++dim) fits = whole.size(dim + 1) == part.size(dim);
  if (!fits)
    core::fail("{}: the {} must be the {}'s {} {} with {} in front, got {} {}", name(kind), whole_name, part_name,
               core::name(part.dtype()), part.shape().str(), size, core::name(whole.dtype()), whole.shape().str());
  const std::byte *part_begin = first_byte(part), *whole_begin = first_byte(whole);
  if (part_begin < whole_begin + whole.bytes() && whole_begin < part_begin + part.bytes())
    core::fail("{}: {} and {} share memory", name(kind), part_name, whole_name);
}

}  // namespace

ProcessGroup::ProcessGroup(std::string name, int rank, int size, core::Device device)
    : name_(std::move(name)), rank_(rank), size_(size), device_(device) {
  if (size < 1 || rank < 0 || rank >= size) core::fail("group {}: no rank {} in a group of {}", name_, rank, size);
}

std::string ProcessGroup::next_name(const std::string& purpose) {
  const int number = ++names_given_[purpose];
  return number == 1 ? fmt::format("{}/{}", name_, purpose) : fmt::format("{}/{} {}", name_, purpose, number);
}

// Waits for copies on this thread: enough for a group of the host, whose collectives leave the device nothing to do.
WorkPtr ProcessGroup::stage(Collective collective) {
  const auto is_here = [&](const Tensor& tensor) { return !tensor.defined() || tensor.device() == device(); };
  if (is_here(collective.tensor) && is_here(collective.output)) return submit(std::move(collective));
  const bool has_output = collective.output.defined(), is_read = collective.kind == Kind::send;
  Tensor& written = has_output ? collective.output : collective.tensor;
  Tensor result = written;
  collective.tensor = collective.tensor.to(device());
  if (has_output) collective.output = Tensor::empty(written.shape(), {.dtype = written.dtype(), .device = device()});
  const Tensor staged = written;
  WorkPtr work = submit(std::move(collective));
  if (!is_read) work->when_waited_for([result, staged]() mutable { result.copy_from(staged); });
  return work;
}

WorkPtr ProcessGroup::all_reduce(Tensor tensor, ReduceOptions options) {
  check_dense(Kind::all_reduce, "tensor", tensor);
  check_reduction(Kind::all_reduce, tensor, options);
  return stage({.kind = Kind::all_reduce,
                .tensor = std::move(tensor),
                .op = options.op,
                .scale = options.scale,
                .label = std::move(options.label)});
}

WorkPtr ProcessGroup::broadcast(Tensor tensor, int root, std::string label) {
  check_rank(Kind::broadcast, root, size_);
  check_dense(Kind::broadcast, "tensor", tensor);
  return stage({.kind = Kind::broadcast, .tensor = std::move(tensor), .peer = root, .label = std::move(label)});
}

WorkPtr ProcessGroup::all_gather(const Tensor& input, Tensor output, std::string label) {
  check_stacked(Kind::all_gather, input, "input", output, "output", size_);
  return stage({.kind = Kind::all_gather, .tensor = input, .output = std::move(output), .label = std::move(label)});
}

WorkPtr ProcessGroup::reduce_scatter(Tensor input, Tensor output, ReduceOptions options) {
  check_stacked(Kind::reduce_scatter, output, "output", input, "input", size_);
  check_reduction(Kind::reduce_scatter, input, options);
  return stage({.kind = Kind::reduce_scatter,
                .tensor = std::move(input),
                .output = std::move(output),
                .op = options.op,
                .scale = options.scale,
                .label = std::move(options.label)});
}

WorkPtr ProcessGroup::barrier(std::string label) { return stage({.kind = Kind::barrier, .label = std::move(label)}); }

WorkPtr ProcessGroup::send(const Tensor& tensor, int to, std::string label) {
  check_other(Kind::send, to, size_, rank_);
  check_dense(Kind::send, "tensor", tensor);
  return stage({.kind = Kind::send, .tensor = tensor, .peer = to, .label = std::move(label)});
}

WorkPtr ProcessGroup::recv(Tensor tensor, int from, std::string label) {
  check_other(Kind::recv, from, size_, rank_);
  check_dense(Kind::recv, "tensor", tensor);
  return stage({.kind = Kind::recv, .tensor = std::move(tensor), .peer = from, .label = std::move(label)});
}

const char* name(Collective::Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return "all_reduce";
    case Kind::broadcast: return "broadcast";
    case Kind::all_gather: return "all_gather";
    case Kind::reduce_scatter: return "reduce_scatter";
    case Kind::barrier: return "barrier";
    case Kind::send: return "send";
    case Kind::recv: return "recv";
  }
  return "?";
}

std::byte* first_byte(const Tensor& tensor) {
  if (!tensor.defined() || tensor.storage()->data() == nullptr) return nullptr;
  return static_cast<std::byte*>(tensor.storage()->data()) +
         tensor.offset() * static_cast<std::int64_t>(core::item_size(tensor.dtype()));
}

}  // namespace tandem::distributed
