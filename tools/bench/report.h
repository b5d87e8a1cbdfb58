// What every subcommand hands out: a table for people, and the same as JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tandem::bench {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

/// Columns as wide as they must be; the first is aligned left, the others right.
void print_table(const Row& header, const std::vector<Row>& rows);
/// "name   value" lines: the effective settings, at the start of every program.
void print_settings(const std::vector<std::pair<std::string, std::string>>& settings);

/// Whole or not at all; nothing where `path` is empty.
void write_json(const std::string& path, const Json& json);

/// The middle one of `values` (of two, their mean).
double median(std::vector<double> values);

}  // namespace tandem::bench
