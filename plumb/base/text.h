// Words for people: the nearest known name, lists, and UTF-8.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/// The number of single-byte insertions, deletions, substitutions and swaps of neighbours that turn `a` into
/// `b` (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known name nearest to `name`, the first among equals; none when all differ in more than a third of
/// their letters (at least two).
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> known);

/// "unknown norm 'lyer'; did you mean 'layer'? known: layer, rms, none" — the first sentence part of a
/// refusal.
std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string> known);

/// "a, b, c".
std::string join(std::span<const std::string> items, std::string_view separator = ", ");

/// Offset of the first byte that does not belong to well-formed UTF-8 (RFC 3629: no surrogates, no overlong
/// forms), if any.
std::optional<std::size_t> bad_utf8_offset(std::string_view text);

/// The code points of `text`. bad_input naming `name` and the offset of the first bad byte.
std::u32string utf8_decode(std::string_view text, std::string_view name);

/// Code points to UTF-8; a value that is no code point becomes U+FFFD.
std::string utf8_encode(std::u32string_view code_points);

}  // namespace plumb
