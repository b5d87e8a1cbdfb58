// References are computed in double from what each rank is known to hold.
#include "tests/distributed/group_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "tandem/core/tensor.h"
#include "tests/elements.h"

namespace tandem::testing {

namespace {

using core::DType;
using core::Tensor;
using distributed::ReduceOp;
using distributed::WorkPtr;

constexpr DType kAllDTypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                                DType::int64,   DType::int32,   DType::uint8,    DType::boolean};
constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};

// Small whole numbers, which every dtype holds exactly, and so do their sums and products over five ranks.
double value_of(int rank, std::int64_t index, DType dtype) {
  const auto mixed = static_cast<std::int64_t>(rank) * 7 + index * 3 + index / 11;
  return static_cast<double>(dtype == DType::boolean ? mixed % 2 : mixed % 3);
}

Tensor tensor_of(int rank, std::int64_t numel, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(numel));
  for (std::int64_t i = 0; i < numel; ++i) values[static_cast<std::size_t>(i)] = value_of(rank, i, dtype);
  return Tensor::from(values).to(dtype);
}

double reduced(ReduceOp op, int size, std::int64_t index, DType dtype) {
  double result = value_of(0, index, dtype);
  for (int rank = 1; rank < size; ++rank) {
    const double value = value_of(rank, index, dtype);
    switch (op) {
      case ReduceOp::sum: result += value; break;
      case ReduceOp::min: result = std::min(result, value); break;
      case ReduceOp::max: result = std::max(result, value); break;
      case ReduceOp::product: result *= value; break;
    }
  }
  return result;
}

bool applies(ReduceOp op, DType dtype) { return dtype != DType::boolean || op == ReduceOp::min || op == ReduceOp::max; }

// One failure a tensor says enough.
void expect_values(const Tensor& tensor, const std::function<double(std::int64_t)>& expected, const std::string& what) {
  const std::vector<double> values = tensor.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double right = expected(static_cast<std::int64_t>(i));
    if (values[i] == right) continue;
    ADD_FAILURE() << what << ": element " << i << " of " << values.size() << " is " << values[i] << ", not " << right;
    return;
  }
}

}  // namespace

void run_ranks(int size, const MakeGroup& make_group, const std::function<void(ProcessGroup&)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<ProcessGroup>> groups(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto& group = groups[static_cast<std::size_t>(rank)];
      try {
        group = make_group(rank, size);
        if (group) body(*group);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        if (group) group->abort("rank failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  groups.clear();
  if (first) std::rethrow_exception(first);
}

void check_all_reduce(int size, const MakeGroup& make_group, const std::vector<std::int64_t>& sizes) {
  run_ranks(size, make_group, [&](ProcessGroup& group) {
    for (const std::int64_t numel : sizes) {
      for (const DType dtype : kAllDTypes) {
        for (const ReduceOp op : kAllOps) {
          if (!applies(op, dtype)) continue;
          const Tensor tensor = tensor_of(group.rank(), numel, dtype);
          group.all_reduce(tensor, {.op = op})->wait();
          expect_values(
              tensor, [&](std::int64_t i) { return reduced(op, size, i, dtype); },
              std::string("all_reduce of ") + std::string(core::name(dtype)));
        }
      }
    }
  });
}

void check_scaled_mean(int size, const MakeGroup& make_group, const std::vector<std::int64_t>& sizes) {
  std::mutex mutex;
  for (const std::int64_t numel : sizes) {
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
      std::vector<Tensor> results(static_cast<std::size_t>(size));
      const double scale = 1.0 / size;
      run_ranks(size, make_group, [&](ProcessGroup& group) {
        std::vector<double> values(static_cast<std::size_t>(numel));
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = std::sin(static_cast<double>(i) + 100.0 * group.rank());
        const Tensor tensor = Tensor::from(values).to(dtype);
        const WorkPtr work = group.all_reduce(tensor, {.scale = scale});
        work->wait();
        const std::lock_guard lock(mutex);
        results[static_cast<std::size_t>(group.rank())] = tensor;
      });
      const double tolerance = dtype == DType::float64   ? 1e-14
                               : dtype == DType::float32 ? 1e-6
                               : dtype == DType::float16 ? 3e-3
                                                         : 3e-2;
      std::erase_if(results, [](const Tensor& tensor) { return !tensor.defined(); });  // those of other processes
      const std::vector<double> first = results[0].to_vector<double>();
      for (std::size_t i = 0; i < first.size(); ++i) {
        double mean = 0;
        for (int rank = 0; rank < size; ++rank) mean += std::sin(static_cast<double>(i) + 100.0 * rank) / size;
        ASSERT_NEAR(first[i], mean, tolerance) << i << " of " << numel << " " << core::name(dtype);
      }
      for (const Tensor& other : results) {  // the same bits everywhere
        ASSERT_TRUE(testing::has_bytes_of(other, results[0])) << numel;
      }
    }
  }
}

void check_others(int size, const MakeGroup& make_group, const std::vector<std::int64_t>& sizes) {
  run_ranks(size, make_group, [&](ProcessGroup& group) {
    const int rank = group.rank();
    for (const std::int64_t numel : sizes) {
      for (const DType dtype : {DType::float32, DType::int64, DType::bfloat16, DType::boolean}) {
        for (int root = 0; root < size; ++root) {
          const Tensor tensor = tensor_of(rank, numel, dtype);
          group.broadcast(tensor, root)->wait();
          expect_values(
              tensor, [&](std::int64_t i) { return value_of(root, i, dtype); }, "broadcast");
        }
        const Tensor all = Tensor::zeros({size, numel}, {.dtype = dtype});
        group.all_gather(tensor_of(rank, numel, dtype), all)->wait();
        expect_values(
            all, [&](std::int64_t i) { return value_of(static_cast<int>(i / numel), i % numel, dtype); }, "all_gather");

        const Tensor stacked = tensor_of(rank, numel * size, dtype).reshape({size, numel});
        const Tensor own = Tensor::zeros({numel}, {.dtype = dtype});
        const ReduceOp op = dtype == DType::boolean ? ReduceOp::max : ReduceOp::sum;
        group.reduce_scatter(stacked, own, {.op = op})->wait();
        expect_values(
            own, [&](std::int64_t i) { return reduced(op, size, i + rank * numel, dtype); }, "reduce_scatter");
      }
    }
    group.barrier()->wait();
  });
}

void check_send_recv(int size, const MakeGroup& make_group) {
  run_ranks(size, make_group, [&](ProcessGroup& group) {
    const int rank = group.rank();
    for (const std::int64_t numel : {0, 1, 1000, 300000}) {
      // A token walks around the ring, and a collective in between does not mind.
      if (rank > 0) {
        const Tensor token = Tensor::zeros({numel});
        group.recv(token, rank - 1)->wait();
        expect_values(
            token, [&](std::int64_t i) { return value_of(rank - 1, i, DType::float32); }, "recv");
      }
      if (rank + 1 < size) group.send(tensor_of(rank, numel, DType::float32), rank + 1)->wait();
      group.barrier()->wait();
    }
  });
}

void check_queue(int size, const MakeGroup& make_group) {
  run_ranks(size, make_group, [&](ProcessGroup& group) {
    std::vector<Tensor> tensors;
    std::vector<WorkPtr> works;
    for (int i = 0; i < 200; ++i) {
      const Tensor tensor = Tensor::full({1 + i * i}, i + group.rank(), {.dtype = DType::int64});
      tensors.push_back(tensor);
      works.push_back(i % 3 == 2 ? group.broadcast(tensor, i % size) : group.all_reduce(tensor));
    }
    works.back()->wait();
    for (int i = 0; i < 200; ++i) {
      const auto index = static_cast<std::size_t>(i);
      ASSERT_TRUE(works[index]->is_done());
      works[index]->wait();
      const double expected = i % 3 == 2 ? i + i % size : size * i + size * (size - 1) / 2.0;
      expect_values(
          tensors[index], [&](std::int64_t) { return expected; }, "queued " + std::to_string(i));
      if (i > 0) {
        EXPECT_LE(works[index - 1]->times().finished_ns, works[index]->times().started_ns + (size == 1 ? 1000000 : 0));
      }
    }
  });
}

}  // namespace tandem::testing
