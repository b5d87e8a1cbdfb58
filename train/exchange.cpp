#include "tandem/train/exchange.h"

#include <algorithm>
#include <vector>

namespace tandem::train {

void Exchange::begin(std::span<const core::Tensor> terms) {
  std::vector<double> mine;
  for (const core::Tensor& term : terms) mine.push_back(term.item());
  mine.push_back(static_cast<double>(stop_.received()));
  width_ = mine.size();
  values_ = core::Tensor::empty({group_.size(), static_cast<std::int64_t>(width_)},
                                {.dtype = core::DType::float64, .device = core::kCpu});
  work_ = group_.all_gather(core::Tensor::from(mine, core::kCpu), values_, "loss");
}

void Exchange::end(UpdateReport& report) {
  work_->wait();
  report.loss = 0;
  for (std::size_t t = 0; t < report.terms.size(); ++t) {
    double total = 0;
    for (int r = 0; r < group_.size(); ++r) total += at(r, t);
    report.terms[t].second = total;
    report.loss += total;
  }
}

int Exchange::stopped_by() const {
  double signal = 0;
  for (int r = 0; r < group_.size(); ++r) signal = std::max(signal, at(r, width_ - 1));
  return static_cast<int>(signal);
}

}  // namespace tandem::train
