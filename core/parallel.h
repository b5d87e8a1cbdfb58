// Splitting a loop over the compute threads of the calling thread, on OpenMP, whose pool oneDNN shares.
//
// The number of threads belongs to the calling thread, so ranks that live as threads of one process each have their
// own. With one thread no parallel region is entered at all.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace tandem::core {

inline int num_threads() { return omp_get_max_threads(); }
/// For the calling thread, from now on; at least 1.
void set_num_threads(int threads);

/// Calls f(begin, end) on disjoint ranges that cover [0, n), about `grain` long or longer where n permits. How the
/// range is split depends on the number of threads: use it where results do not (elementwise work), else
/// parallel_chunks. An exception of any range is thrown again here, once all have ended.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
  if (n <= 0) return;
  const auto pieces = static_cast<int>(std::min<std::int64_t>(num_threads(), (n + grain - 1) / grain));
  if (pieces <= 1 || omp_in_parallel()) {
    f(std::int64_t{0}, n);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel num_threads(pieces)
  {
    const std::int64_t count = omp_get_num_threads(), mine = omp_get_thread_num();
    const std::int64_t begin = n * mine / count, end = n * (mine + 1) / count;
    try {
      if (begin < end) f(begin, end);
    } catch (...) {
#pragma omp critical(tandem_parallel_for_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Calls f(chunk, begin, end) for each chunk of `size` elements of [0, n), the last one shorter. Chunks do not depend
/// on the number of threads, so a sum of partial results in order of chunks has the same bits for any number.
template <class F>
void parallel_chunks(std::int64_t n, std::int64_t size, F&& f) {
  parallel_for((n + size - 1) / size, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t chunk = first; chunk < last; ++chunk) f(chunk, chunk * size, std::min(n, (chunk + 1) * size));
  });
}

}  // namespace tandem::core
