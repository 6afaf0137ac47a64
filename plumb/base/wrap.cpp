#include "plumb/base/wrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/text.h"

namespace plumb {
namespace {

constexpr std::size_t least_text = 20;  // columns beside an indent: below them a line holds hardly a word

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  width = std::max(width, indent + least_text);
  std::string out;
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, space - at);
    const std::size_t columns = display_width(word);
    if (!out.empty() && column + 1 + columns > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!out.empty()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns;
    at = space + 1;
  }
  return out;
}

std::string wrapped_behind(const std::string& label, std::string_view text, std::size_t width) {
  return label + wrapped(text, width, display_width(label));
}

std::string shortened(std::string_view text, std::size_t width) {
  if (bad_utf8_offset(text) || display_width(text) <= width) return std::string(text);
  if (width == 0) return "";
  const std::u32string all = utf8_decode(text, "the text");
  const std::u32string_view points = all;
  const std::size_t front = (width - 1) / 2, back = width - 1 - front;
  return utf8_encode(points.substr(0, front)) + "…" + utf8_encode(points.substr(points.size() - back));
}

std::string number_text(double v, const char* how) {
  return std::isnan(v) ? "NaN" : fmt::format(fmt::runtime(how), v);
}

}  // namespace plumb
