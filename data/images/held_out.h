// Which files of a class are for testing, if nobody has put them into a folder of their own.
#pragma once

#include <string>
#include <vector>

namespace tandem::data {

/// For each of a class's files, by name, whether it is held out. A function of names alone: `part` of them on average,
/// at least one and not all if there are two or more.
std::vector<bool> choose_held_out(const std::vector<std::string>& names, double part);

}  // namespace tandem::data
