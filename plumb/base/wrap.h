// Words for a terminal: lines that fit its width, and numbers that are none.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace plumb {

/// Columns that `text` takes: its code points.
std::size_t display_width(std::string_view text);

/// Words of `text` in lines of at most `width` columns. The first line begins at column `indent`, behind what
/// the caller wrote; the later ones are indented to it. A word that is too long for a line stays whole.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

/// `label` and behind it `text`, whose later lines stand below its first.
std::string wrapped_behind(const std::string& label, std::string_view text, std::size_t width);

/// `text` with its middle as "…" where it is longer than `width` columns.
std::string shortened(std::string_view text, std::size_t width);

/// `v` in the format `how`, or "NaN" whatever its sign bit.
std::string number_text(double v, const char* how = "{}");

}  // namespace plumb
