// What one rank did and when, update by update: JSON lines for simulators and for those who measure overlap.
//
//   {"rank":0,"world_size":2,"parameters":[{"name":"fc1.weight","bytes":802816,"dtype":"float32"},..],
//    "buckets":[[3,2],[1,0]]}
//   {"step":1,"forward_ms":..,"backward_ms":..,"optimizer_ms":..,"exposed_ms":..,
//    "local_passes":3,"local_forward_ms":..,"local_backward_ms":..,
//    "bytes_sent":..,"bytes_copied":0,"bytes_reordered":..,"ready_ms":[..],
//    "buckets":[{"bytes":..,"ready_ms":..,"launched_ms":..,"begin_ms":..,"end_ms":..},..]}
//
// First comes the plan, of all lines up to the next plan: buckets may be built anew. Then a line an update.
// docs/metrics.md says what each field is.
#pragma once

#include <memory>
#include <string>

#include "tandem/train/listener.h"
#include "tandem/train/output_lines.h"

namespace tandem::train {

class Profile final : public Listener {
 public:
  /// Throws Error if the file cannot be opened; one that later takes no more is lost output, because of which `stop`
  /// ends the run.
  Profile(const std::string& path, int rank, int world_size, StopSignal& stop);

  /// An update without items sends nothing, and has no line.
  void update(const UpdateReport& report, const distributed::Reducer& reducer) override;

 private:
  int rank_, world_size_;
  OutputLines lines_;
  std::shared_ptr<const distributed::BucketPlan> plan_;  // as written last
};

}  // namespace tandem::train
