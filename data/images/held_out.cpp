#include "tandem/data/images/held_out.h"

#include <algorithm>

#include "tandem/core/fnv1a.h"
#include "tandem/core/random.h"

namespace tandem::data {
namespace {

// In [0, 1). Philox spreads what the hash leaves alike for names that differ in one digit.
double place_of(const std::string& name) {
  return static_cast<double>(core::Generator(core::fnv1a(name)).next().block(0)[0]) * 0x1p-32;
}

}  // namespace

std::vector<bool> choose_held_out(const std::vector<std::string>& names, double part) {
  std::vector<double> places;
  for (const std::string& name : names) places.push_back(place_of(name));
  std::vector<bool> chosen;
  for (const double place : places) chosen.push_back(place < part);
  if (names.size() < 2) return std::vector<bool>(names.size(), false);
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  chosen[static_cast<std::size_t>(least - places.begin())] = true;
  chosen[static_cast<std::size_t>(most - places.begin())] = false;
  return chosen;
}

}  // namespace tandem::data
