#include "tools/train/report/format.h"

namespace tandem::train {

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

}  // namespace tandem::train
