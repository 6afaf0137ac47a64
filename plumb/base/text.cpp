#include "plumb/base/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "plumb/base/error.h"

namespace plumb {
namespace {

// Reads the code point at `at` and moves `at` behind it; false where there is none.
bool next_code_point(std::string_view text, std::size_t& at, char32_t& code) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    code = byte;
    ++at;
    return true;
  }
  utf8proc_int32_t found = -1;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
  // Four bytes are enough for any code point, and keep the length inside utf8proc's signed type.
  const auto left = static_cast<utf8proc_ssize_t>(std::min<std::size_t>(text.size() - at, 4));
  const utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &found);
  if (length <= 0 || found < 0) return false;
  code = static_cast<char32_t>(found);
  at += static_cast<std::size_t>(length);
  return true;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

namespace {

// Whether `distance` edits may be a slip of the hand. Two edits of a short name leave little of it: then it
// must begin alike and keep half of its letters, or "zero" would be taken for "derf" and "foo" for "ffn".
bool is_slip(std::string_view a, std::string_view b, std::size_t distance) {
  const std::size_t longer = std::max(a.size(), b.size()), shorter = std::min(a.size(), b.size());
  if (distance >= std::max<std::size_t>(shorter, 2)) return false;
  if (distance <= std::max<std::size_t>(1, longer / 3)) return true;
  return distance == 2 && a.front() == b.front() && 2 * distance <= longer;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> known) {
  std::optional<std::string> best;
  std::size_t least = 0;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (!is_slip(name, candidate, distance)) continue;
    if (!best || distance < least) {
      best = candidate;
      least = distance;
    }
  }
  return best;
}

std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string> known) {
  const auto nearest = nearest_name(name, known);
  return fmt::format("unknown {} '{}'; {}known: {}", kind, name,
                     nearest ? fmt::format("did you mean '{}'? ", *nearest) : std::string(), join(known));
}

std::string join(std::span<const std::string> items, std::string_view separator) {
  std::string text;
  for (const std::string& item : items) {
    if (&item != items.data()) text += separator;
    text += item;
  }
  return text;
}

std::optional<std::size_t> bad_utf8_offset(std::string_view text) {
  char32_t code = 0;
  for (std::size_t at = 0; at < text.size();)
    if (!next_code_point(text, at, code)) return at;
  return {};
}

std::u32string utf8_decode(std::string_view text, std::string_view name) {
  std::u32string codes;
  codes.reserve(text.size());
  char32_t code = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!next_code_point(text, at, code)) {
      bad_input(
          "{} is not UTF-8: byte 0x{:02x} at offset {} belongs to no character; convert the text to UTF-8",
          name, static_cast<unsigned char>(text[at]), at);
    }
    codes += code;
  }
  return codes;
}

std::string utf8_encode(std::u32string_view code_points) {
  std::string text;
  text.reserve(code_points.size());
  for (const char32_t code : code_points) {
    const auto point = static_cast<utf8proc_int32_t>(code);
    const bool valid = utf8proc_codepoint_valid(point) != 0;
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto n = utf8proc_encode_char(valid ? point : 0xfffd, bytes.data());
    text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace plumb
