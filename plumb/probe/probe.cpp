#include "plumb/probe/probe.h"

#include <charconv>

namespace plumb {

int index_of(std::string_view point, std::string_view pattern) {
  constexpr std::string_view hole = "{i}";
  const std::size_t at = pattern.find(hole);
  if (at == std::string_view::npos) return point == pattern ? 0 : -1;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + hole.size());
  if (!point.starts_with(before) || !point.ends_with(after) || point.size() <= before.size() + after.size())
    return -1;
  const std::string_view digits = point.substr(before.size(), point.size() - before.size() - after.size());
  int index = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return error == std::errc() && end == digits.data() + digits.size() ? index : -1;
}

}  // namespace plumb
