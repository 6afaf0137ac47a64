// TOML text as a flat list; toml++ stays inside toml.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/config/field.h"

namespace plumb {

/// A table or a value of a TOML text.
struct TomlEntry {
  enum class Kind : std::uint8_t { table, value, other };
  std::string path;    // "model.attention.scale"
  std::uint32_t line;  // of the key, from 1
  Kind kind;
  FieldValue value;  // of a value
  std::string what;  // of anything else: "a table", "an array", "a date", "a time", "a date and time"
};

/// The entries in the order of their lines, a table before what is in it. bad_input naming `name` and the
/// line for a syntax error. TOML 1.0, with one restriction: no multi-line strings.
std::vector<TomlEntry> read_toml(std::string_view text, std::string_view name);

}  // namespace plumb
