#include "tandem/core/parallel.h"

#include "tandem/core/error.h"

namespace tandem::core {

void set_num_threads(int threads) {
  if (threads < 1) fail("set_num_threads: {} threads, at least 1 is needed", threads);
  omp_set_num_threads(threads);
}

}  // namespace tandem::core
