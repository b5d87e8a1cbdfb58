// Two threads: one compares and hands on, the other waits for what was handed on, so that comparing does not wait for
// the collective before.
#include "tandem/distributed/groups/checked_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "tandem/core/error.h"
#include "tandem/core/fnv1a.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/fields.h"
#include "tandem/distributed/groups/lane.h"
#include "tandem/distributed/groups/reduce_kernels.h"

namespace tandem::distributed {

namespace {

using Kind = Collective::Kind;
using core::DType;

constexpr std::size_t kTextBytes = 512;  // of each rank's description, in messages

bool is_between_two(const Collective& collective) {
  return collective.kind == Kind::send || collective.kind == Kind::recv;
}

// All that must be the same on all ranks: "all_reduce (sum, float32 [4096], scale 0.5) of bucket 1".
std::string describe(const Collective& collective) {
  std::string text = name(collective.kind);
  const Tensor& tensor = collective.tensor;
  if (tensor.defined()) {
    const bool reduces = collective.kind == Kind::all_reduce || collective.kind == Kind::reduce_scatter;
    text += " (";
    if (reduces) text += fmt::format("{}, ", name(collective.op));
    text += fmt::format("{} {}", core::name(tensor.dtype()), tensor.shape().str());
    if (!tensor.is_contiguous()) {  // strides of dimensions of 1 mean nothing
      text += ", strides";
      for (int dim = 0; dim < tensor.rank(); ++dim)
        text += tensor.size(dim) == 1 ? " -" : fmt::format(" {}", tensor.strides()[dim]);
    }
    if (reduces && collective.scale != 1) text += fmt::format(", scale {}", collective.scale);
    if (collective.kind == Kind::broadcast) text += fmt::format(", from rank {}", collective.peer);
    text += ")";
  }
  if (!collective.label.empty()) text += " of " + collective.label;
  return text;
}

std::int64_t fingerprint(const std::string& text) { return std::bit_cast<std::int64_t>(core::fnv1a(text)); }

class CheckedGroup final : public ProcessGroup {
 public:
  explicit CheckedGroup(std::shared_ptr<ProcessGroup> inner)
      : ProcessGroup(inner->name(), inner->rank(), inner->size(), inner->device()), groups_{.inner = std::move(inner)} {
    if (size() == 1) return;
    groups_.comparisons = groups_.inner->duplicate(groups_.inner->next_name("check"));
    awaiting_ = std::make_unique<Lane<Running>>([this](Running& running) { await(running); });
    comparing_ = std::make_unique<Lane<Issued>>([this](Issued& issued) { hand_on(issued); });
  }

  ~CheckedGroup() override {
    fail_with(
        std::make_exception_ptr(PeerError(fmt::format("group {}: the group was destroyed on this rank", name()))));
    Groups ending;
    {
      const std::lock_guard lock(mutex_);
      std::swap(ending, groups_);
    }
    ending = {};  // which ends what they run, and so what the threads wait for
    comparing_.reset();
    awaiting_.reset();
  }

  std::shared_ptr<ProcessGroup> duplicate(const std::string& name) override {
    return make_checked_group(groups_.inner->duplicate(name));
  }

  void abort(const std::string& cause) override {
    fail_with(std::make_exception_ptr(PeerError(fmt::format("group {}: {}", name(), cause))));
    abort_inside(cause);
  }

  WorkPtr submit(Collective collective) override {
    if (size() == 1) return groups_.inner->submit(std::move(collective));
    auto work = std::make_shared<Work>();
    const std::lock_guard lock(issue_mutex_);
    const std::int64_t sequence = is_between_two(collective) ? -1 : sequence_++;
    comparing_->push({std::move(collective), sequence, work});
    return work;
  }

 private:
  struct Issued {
    Collective collective;
    std::int64_t sequence = -1;  // none for sends and receives
    WorkPtr work;
  };
  /// Handed on, or failed before.
  struct Running {
    WorkPtr inner;
    std::exception_ptr error;
    WorkPtr work;
  };

  void hand_on(Issued& issued) {
    Running running = {.inner = nullptr, .error = nullptr, .work = issued.work};
    try {
      if (issued.sequence >= 0) compare(issued);
      running.inner = issue([&] { return groups_.inner->submit(std::move(issued.collective)); });
    } catch (...) {
      running.error = fail_with(std::current_exception());
    }
    awaiting_->push(std::move(running));
  }

  void compare(const Issued& issued) {
    const std::string title = fmt::format("collective {} of {}", issued.sequence, name());
    const std::string text = describe(issued.collective);
    const std::string label = fmt::format("comparing {}: {}", title, text);
    Tensor marks = Tensor::empty({size(), 1}, {.dtype = DType::int64, .device = core::kCpu});
    const Tensor own = Tensor::from(std::vector{fingerprint(text)}, core::kCpu);
    issue([&] { return groups_.comparisons->all_gather(own, marks, label); })->wait();
    const auto values = marks.to_vector<std::int64_t>();
    const auto other = std::find_if(values.begin(), values.end(), [&](auto mark) { return mark != values.front(); });
    if (other == values.end()) return;

    const std::vector<std::string> texts = gather(text, label);
    const auto rank = static_cast<std::size_t>(other - values.begin());
    core::fail("{}: rank 0 is at {}, rank {} at {}", title, texts.front(), rank, texts[rank]);
  }

  /// Each rank's text.
  std::vector<std::string> gather(const std::string& text, const std::string& label) {
    const std::string own = one_line(text, kTextBytes - 3);  // it adds "..."
    Tensor bytes =
        Tensor::zeros({static_cast<std::int64_t>(kTextBytes)}, {.dtype = DType::uint8, .device = core::kCpu});
    std::memcpy(bytes.mutable_raw_data(), own.data(), own.size());
    Tensor all =
        Tensor::empty({size(), static_cast<std::int64_t>(kTextBytes)}, {.dtype = DType::uint8, .device = core::kCpu});
    issue([&] { return groups_.comparisons->all_gather(bytes, all, label); })->wait();
    std::vector<std::string> texts;
    for (int rank = 0; rank < size(); ++rank) {
      const char* begin = static_cast<const char*>(all.raw_data()) + static_cast<std::size_t>(rank) * kTextBytes;
      texts.emplace_back(begin, std::find(begin, begin + kTextBytes, '\0'));
    }
    return texts;
  }

  void await(const Running& running) {
    running.work->start();
    if (running.error) return running.work->finish(running.error);
    try {
      running.inner->wait();
      running.work->finish(nullptr, running.inner->bytes_sent());
    } catch (const std::exception& error) {
      fail_with(std::current_exception());
      abort_inside(error.what());
      running.work->finish(std::current_exception());
    }
  }

  /// Issues to one of the groups inside, unless something has failed. They may end while its Work is waited for.
  template <class F>
  WorkPtr issue(F&& submit_inside) {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    return submit_inside();
  }
  void abort_inside(const std::string& cause) {
    Groups groups;
    {
      const std::lock_guard lock(mutex_);
      groups = groups_;
    }
    if (groups.comparisons) groups.comparisons->abort(cause);
    if (groups.inner) groups.inner->abort(cause);
  }
  /// The first one stays. Returns `error`, so that each Work says what happened to itself.
  std::exception_ptr fail_with(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
    return error;
  }

  struct Groups {
    std::shared_ptr<ProcessGroup> inner = nullptr, comparisons = nullptr;
  };

  std::mutex issue_mutex_;
  std::int64_t sequence_ = 0;
  std::mutex mutex_;  // of what follows
  Groups groups_;     // none when this group is about to end
  std::exception_ptr failure_;
  std::unique_ptr<Lane<Running>> awaiting_;
  std::unique_ptr<Lane<Issued>> comparing_;
};

}  // namespace

std::shared_ptr<ProcessGroup> make_checked_group(std::shared_ptr<ProcessGroup> inner) {
  if (!inner) core::fail("checked group: the group inside is null");
  return std::make_shared<CheckedGroup>(std::move(inner));
}

}  // namespace tandem::distributed
