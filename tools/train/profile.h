// What one rank did and when, update by update: JSON lines for simulators and for those who measure overlap.
//
//   {"rank":0,"world_size":2,"parameters":[{"name":"fc1.weight","bytes":802816},..],"buckets":[[3,2],[1,0]]}
//   {"step":1,"forward_ms":..,"backward_ms":..,"optimizer_ms":..,"exposed_ms":..,"bytes_sent":..,"bytes_copied":0,
//    "bytes_reordered":..,"ready_ms":[..],
//    "buckets":[{"bytes":..,"ready_ms":..,"launched_ms":..,"begin_ms":..,"end_ms":..},..]}
//
// The first line is the plan: parameters in order of registration, buckets as indices into them; written again where
// buckets were built anew. Then a line an update. Times within a line are since backward's begin; backward_ms is its
// compute alone, exposed_ms what it waited for after its last node. "ready_ms" is null where no gradient came.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/distributed/reducer.h"
#include "tools/train/update_report.h"

namespace tandem::train {

class Profile {
 public:
  /// Throws Error where the file cannot be written.
  Profile(const std::string& path, int rank, int world_size);

  void update(const distributed::Reducer& reducer, const UpdateReport& report);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void write(const std::string& line);

  std::string path_;
  int rank_, world_size_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::vector<std::size_t>> assignment_;  // as written last
};

}  // namespace tandem::train
