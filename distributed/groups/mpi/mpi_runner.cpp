// Each collective as a request that is started and tested.
#include "tandem/distributed/groups/mpi/mpi_runner.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>

#include "tandem/distributed/groups/mpi/mpi_reduction.h"
#include "tandem/distributed/groups/reduce_kernels.h"

namespace tandem::distributed {

namespace {

using Kind = Collective::Kind;

constexpr int kSignatureTag = 0, kNumbersTag = 1;
constexpr int kSignatureBytes = static_cast<int>(sizeof(Signature));
constexpr std::uint64_t kNotCome = std::numeric_limits<std::uint64_t>::max();  // a sequence that never is

Signature signature_of(const Collective& collective, std::uint64_t sequence) {
  Signature signature;
  std::memset(static_cast<void*>(&signature), 0, sizeof(signature));  // what lies between is sent too
  signature.sequence = sequence;
  signature.kind = collective.kind == Kind::recv ? Kind::send : collective.kind;
  signature.op = collective.op;
  if (collective.tensor.defined()) {
    signature.bytes = collective.tensor.bytes();
    signature.dtype = collective.tensor.dtype();
  }
  if (collective.kind == Kind::broadcast) signature.root = static_cast<std::uint8_t>(collective.peer);
  return signature;
}

void expect_same(const Signature& own, const Signature& other, int peer) {
  if (!(own == other)) throw TransportError(TransportError::Kind::mismatch, peer, other.str());
}

}  // namespace

MpiRunner::MpiRunner(MpiProcess& process, MPI_Comm communicator, std::int64_t most_elements)
    : process_(process),
      communicator_(communicator),
      most_elements_(most_elements),
      exceptions_(std::uncaught_exceptions()),
      signatures_(std::make_shared<std::vector<Signature>>(static_cast<std::size_t>(process.size()) + 1)),
      sent_to_(static_cast<std::size_t>(process.size())),
      received_from_(static_cast<std::size_t>(process.size())) {}

// The communicator stays until MPI ends: freeing it is collective, and ranks may end a group at different times.
MpiRunner::~MpiRunner() {
  if (std::uncaught_exceptions() > exceptions_) process_.end_without_finalize();
}

std::int64_t MpiRunner::run(const Job& job, std::uint64_t sequence, Transport::Clock::time_point deadline) {
  const Collective& collective = job.collective;
  const auto peer = static_cast<std::size_t>(collective.peer);
  if (collective.kind == Kind::send) sequence = sent_to_[peer]++;
  if (collective.kind == Kind::recv) sequence = received_from_[peer]++;
  job_ = &job;
  deadline_ = deadline;
  signature_ = signature_of(collective, sequence);
  signatures_->back() = signature_;
  dispatch(job);
  const bool sends = collective.kind != Kind::barrier && collective.kind != Kind::recv &&
                     (collective.kind != Kind::broadcast || collective.peer == process_.rank());
  return sends ? static_cast<std::int64_t>(collective.tensor.bytes()) : 0;
}

// Also a barrier: who has all signatures knows that all ranks have come.
void MpiRunner::agree() {
  std::vector<Signature>& all = *signatures_;
  for (std::size_t rank = 0; rank + 1 < all.size(); ++rank) all[rank].sequence = kNotCome;
  complete("MPI_Iallgather", MpiWaiting::for_peers, [&](MPI_Request* request) {
    return MPI_Iallgather(&all.back(), kSignatureBytes, MPI_BYTE, all.data(), kSignatureBytes, MPI_BYTE, communicator_,
                          request);
  });
  for (int rank = 0; rank < process_.size(); ++rank) expect_same(signature_, all[static_cast<std::size_t>(rank)], rank);
}

void MpiRunner::dispatch(const Job& job) {
  const Collective& collective = job.collective;
  if (collective.kind == Kind::send) return send(job);
  if (collective.kind == Kind::recv) return receive(job);
  agree();
  if (collective.kind == Kind::barrier || collective.tensor.numel() == 0) return;
  const core::DType dtype = collective.tensor.dtype();
  const std::int64_t numel = collective.tensor.numel();
  const auto place = [&](std::int64_t begin) { return job.data + begin * std::int64_t(core::item_size(dtype)); };
  switch (collective.kind) {
    case Kind::all_reduce:
      scale_in_place(dtype, job.data, collective.scale, numel);
      return in_pieces(numel, [&](std::int64_t begin, int count) {
        complete("MPI_Iallreduce", MpiWaiting::for_numbers, [&](MPI_Request* request) {
          return MPI_Iallreduce(MPI_IN_PLACE, place(begin), count, mpi_type(dtype), mpi_op(collective.op, dtype),
                                communicator_, request);
        });
      });
    case Kind::broadcast:
      return in_pieces(numel, [&](std::int64_t begin, int count) {
        complete("MPI_Ibcast", MpiWaiting::for_numbers, [&](MPI_Request* request) {
          return MPI_Ibcast(place(begin), count, mpi_type(dtype), collective.peer, communicator_, request);
        });
      });
    case Kind::all_gather: return all_gather(job);
    case Kind::reduce_scatter: return reduce_scatter(job);
    default: return;
  }
}

// A piece of each rank's part lies a whole part behind the one of the rank before: a type says so.
void MpiRunner::all_gather(const Job& job) {
  const Tensor& input = job.collective.tensor;
  const auto item = static_cast<std::int64_t>(core::item_size(input.dtype()));
  in_pieces(input.numel(), [&](std::int64_t begin, int count) {
    MPI_Datatype piece = MPI_DATATYPE_NULL, spaced = MPI_DATATYPE_NULL;
    complete("MPI_Iallgather", MpiWaiting::for_numbers, [&](MPI_Request* request) {
      MPI_Type_contiguous(count, mpi_type(input.dtype()), &piece);
      MPI_Type_create_resized(piece, 0, static_cast<MPI_Aint>(input.bytes()), &spaced);
      MPI_Type_commit(&spaced);
      return MPI_Iallgather(job.data + begin * item, count, mpi_type(input.dtype()), job.output + begin * item, 1,
                            spaced, communicator_, request);
    });
    process_.call("MPI_Type_free", [&] {
      MPI_Type_free(&piece);
      return MPI_Type_free(&spaced);
    });
  });
}

void MpiRunner::reduce_scatter(const Job& job) {
  const Collective& collective = job.collective;
  const core::DType dtype = collective.tensor.dtype();
  const std::int64_t numel = collective.output.numel();
  const auto item = static_cast<std::int64_t>(core::item_size(dtype));
  scale_in_place(dtype, job.data, collective.scale, collective.tensor.numel());
  if (collective.tensor.numel() <= most_elements_) {
    return complete("MPI_Ireduce_scatter_block", MpiWaiting::for_numbers, [&](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(job.data, job.output, static_cast<int>(numel), mpi_type(dtype),
                                       mpi_op(collective.op, dtype), communicator_, request);
    });
  }
  for (int root = 0; root < process_.size(); ++root) {  // pieces of all parts at once would not lie together
    in_pieces(numel, [&](std::int64_t begin, int count) {
      complete("MPI_Ireduce", MpiWaiting::for_numbers, [&](MPI_Request* request) {
        return MPI_Ireduce(job.data + (root * numel + begin) * item, job.output + begin * item, count, mpi_type(dtype),
                           mpi_op(collective.op, dtype), root, communicator_, request);
      });
    });
  }
}

void MpiRunner::send(const Job& job) {
  const Collective& collective = job.collective;
  const auto item = static_cast<std::int64_t>(core::item_size(collective.tensor.dtype()));
  complete("MPI_Isend", MpiWaiting::for_peers, [&](MPI_Request* request) {
    return MPI_Isend(&signatures_->back(), kSignatureBytes, MPI_BYTE, collective.peer, kSignatureTag, communicator_,
                     request);
  });
  in_pieces(collective.tensor.numel(), [&](std::int64_t begin, int count) {
    complete("MPI_Isend", MpiWaiting::for_peers, [&](MPI_Request* request) {
      return MPI_Isend(job.data + begin * item, count, mpi_type(collective.tensor.dtype()), collective.peer,
                       kNumbersTag, communicator_, request);
    });
  });
}

void MpiRunner::receive(const Job& job) {
  const Collective& collective = job.collective;
  const auto item = static_cast<std::int64_t>(core::item_size(collective.tensor.dtype()));
  Signature& other = signatures_->front();
  complete("MPI_Irecv", MpiWaiting::for_peers, [&](MPI_Request* request) {
    return MPI_Irecv(&other, kSignatureBytes, MPI_BYTE, collective.peer, kSignatureTag, communicator_, request);
  });
  expect_same(signature_, other, collective.peer);
  in_pieces(collective.tensor.numel(), [&](std::int64_t begin, int count) {
    complete("MPI_Irecv", MpiWaiting::for_numbers, [&](MPI_Request* request) {
      return MPI_Irecv(job.data + begin * item, count, mpi_type(collective.tensor.dtype()), collective.peer,
                       kNumbersTag, communicator_, request);
    });
  });
}

template <class F>
void MpiRunner::in_pieces(std::int64_t numel, F&& f) const {
  for (std::int64_t begin = 0; begin < numel; begin += most_elements_)
    f(begin, static_cast<int>(std::min(most_elements_, numel - begin)));
}

template <class F>
void MpiRunner::complete(const char* what, MpiWaiting waiting, F&& start) {
  process_.call(what, [&] { return start(&request_); });
  await(what, waiting);
}

void MpiRunner::await(const char* what, MpiWaiting waiting) {
  for (int tests = 0;; ++tests) {
    int is_done = 0;
    process_.call(what, [&] { return MPI_Test(&request_, &is_done, MPI_STATUS_IGNORE); });
    if (is_done != 0) return;
    if (is_aborted_) throw TransportError(TransportError::Kind::aborted, -1, "");
    if (Transport::Clock::now() > deadline_) throw TransportError(TransportError::Kind::deadline, first_missing(), "");
    pause_between_tests(waiting, tests);
  }
}

int MpiRunner::first_missing() const {
  const Kind kind = job_->collective.kind;
  if (kind == Kind::send || kind == Kind::recv) return job_->collective.peer;
  for (int rank = 0; rank < process_.size(); ++rank)
    if ((*signatures_)[static_cast<std::size_t>(rank)].sequence == kNotCome) return rank;
  return -1;
}

void MpiRunner::forget() {
  if (request_ == MPI_REQUEST_NULL) return;
  process_.abandon(std::make_shared<Collective>(job_->collective));
  process_.abandon(signatures_);
}

}  // namespace tandem::distributed
