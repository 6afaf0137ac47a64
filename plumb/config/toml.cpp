#include "plumb/config/toml.h"

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/impl/preprocessor.h>
// toml++ 3.3.0 asserts (aborts, or with NDEBUG and clang assumes) that a key starts well where it has not
// looked: [=] and [[[ end there. Without the assertion the code below it finds the fault and reports it as
// any other.
#undef TOML_ASSERT
#define TOML_ASSERT(expr) static_assert(true)
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>

#include "plumb/base/error.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

// A key of more parts than this is refused: toml++ walks tables recursively, and the stack is finite.
constexpr int max_key_parts = 16;

void refuse_bad_utf8(std::string_view text, std::string_view name) {
  const auto offset = bad_utf8_offset(text);
  if (!offset) return;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*offset), '\n');
  bad_input("{}:{}: byte 0x{:02x} at offset {} is not UTF-8; save the file as UTF-8", name, line,
            static_cast<unsigned char>(text[*offset]), *offset);
}

// The number of bytes from `text`, which starts with a quote, to the end of the string; a string that is not
// closed ends with its line.
std::size_t string_length(std::string_view text) {
  for (std::size_t i = 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == text[0]) return i + 1;
    if (text[0] == '"' && text[i] == '\\' && i + 1 < text.size() && text[i + 1] != '\n') ++i;
  }
  return std::min(text.find('\n'), text.size());
}

// toml++ 3.3.0 runs into __builtin_unreachable for many characters beyond ASCII (U+FEBF, bytes EF BA BF, is
// one) where it looks for white space, that is anywhere outside of strings and comments. TOML allows none
// there, so they are refused before toml++ sees them. Multi-line strings skip white space inside, so they are
// refused too: no key here wants one.
void refuse_what_crashes(std::string_view text, std::string_view name) {
  std::size_t line = 1;
  int key_parts = 1;
  for (std::size_t i = text.starts_with("\xef\xbb\xbf") ? 3 : 0; i < text.size();
       ++i) {  // a byte-order mark is allowed
    const char c = text[i];
    if (c == '#') i = std::min(text.find('\n', i), text.size()) - 1;
    if (c == '\n') ++line;
    if (c == '"' || c == '\'') {
      if (text.substr(i, 3) == std::string(3, c)) {
        bad_input(
            "{}:{}: multi-line strings are not read here; put the text between single quotes on one line",
            name, line);
      }
      i += string_length(text.substr(i)) - 1;
    }
    if (static_cast<unsigned char>(c) >= 0x80) {
      bad_input("{}:{}: a character beyond ASCII stands outside of a string or comment; put it in quotes",
                name, line);
    }
    if (std::string_view("\n=,[{").find(c) != std::string_view::npos) key_parts = 1;
    if (c == '.' && ++key_parts > max_key_parts)
      bad_input("{}:{}: a key has more than {} parts; check its dots", name, line, max_key_parts);
  }
}

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::date:
      return "a date";
    case toml::node_type::time:
      return "a time";
    case toml::node_type::date_time:
      return "a date and time";
    default:
      return "something else";
  }
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<TomlEntry>& entries) {
  for (auto&& [key, node] : table) {
    TomlEntry entry{prefix + std::string(key.str()), key.source().begin.line, TomlEntry::Kind::value, {}, {}};
    if (const auto* b = node.as_boolean()) {
      entry.value = b->get();
    } else if (const auto* i = node.as_integer()) {
      entry.value = i->get();
    } else if (const auto* d = node.as_floating_point()) {
      entry.value = d->get();
    } else if (const auto* s = node.as_string()) {
      entry.value = s->get();
    } else if (const auto* a = node.as_array(); a != nullptr && (a->empty() || a->is_homogeneous<std::string>())) {
      std::vector<std::string> all;
      for (const toml::node& each : *a) all.push_back(each.as_string()->get());
      entry.value = std::move(all);
    } else {
      entry.kind = node.is_table() ? TomlEntry::Kind::table : TomlEntry::Kind::other;
      entry.what = kind_of(node);
    }
    const std::string below = entry.path + ".";
    entries.push_back(std::move(entry));
    if (const auto* child = node.as_table()) flatten(*child, below, entries);
  }
}

}  // namespace

std::vector<TomlEntry> read_toml(std::string_view text, std::string_view name) {
  refuse_bad_utf8(text, name);
  refuse_what_crashes(text, name);
  std::vector<TomlEntry> entries;
  try {
    const toml::table root = toml::parse(text, name);
    flatten(root, "", entries);
  } catch (const toml::parse_error& e) {
    std::string why(e.description());
    std::replace(why.begin(), why.end(), '\n', ' ');
    bad_input("{}:{}: not TOML ({}); correct that line", name, e.source().begin.line, why);
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
  return entries;
}

}  // namespace plumb
