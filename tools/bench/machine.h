// The machine under the benchmark: its name, and what it can do at best.
#pragma once

#include <cstddef>

#include "tandem/core/dtype.h"
#include "tools/bench/report.h"

namespace tandem::bench {

/// Processor, threads, versions of Tandem and oneDNN, compiler.
Json describe_machine();

/// float32 multiply-adds from registers on the threads of the calling thread, 2 operations each, per second: the best
/// of a few tries.
double measure_peak_flops();
/// Of products whose operands are `dtype`. float32: as above. bfloat16: a large product on oneDNN whose right side is
/// packed already, since there is no portable loop of registers that would use the units for it.
double measure_peak_flops(core::DType dtype);
/// Bytes per second of a[i] = b[i] + s c[i] over arrays far larger than the caches (two read, one written; McCalpin's
/// STREAM triad).
double measure_bandwidth();

/// The most memory that this process has had resident at once, in bytes.
std::size_t peak_resident_bytes();

}  // namespace tandem::bench
