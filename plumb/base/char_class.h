// Kinds of characters, by their Unicode category, and characters that can be shown.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace plumb {

/// `letter` is one that has no case (Chinese, Arabic); `mark` punctuation and symbols; `other` controls and
/// what has no category.
enum class CharClass : std::uint8_t { upper, lower, letter, digit, space, mark, line_end, other };
constexpr std::array<std::string_view, 8> char_class_names{
    "upper-case", "lower-case", "letter without case", "digit", "space", "punctuation", "line end", "other"};

CharClass class_of(char32_t code_point);
inline std::string_view class_name(CharClass c) { return char_class_names[static_cast<std::size_t>(c)]; }

/// a, e, i, o, u in either case.
bool is_vowel(char32_t code_point);
/// What a pair of brackets or of quotation marks begins with, where that has a sign of its own.
bool is_opening(char32_t code_point);

/// UTF-8 in which what would move the cursor or be seen by nobody stands as an escape: \n, \t, \x07, \u200b.
std::string visible(std::u32string_view text);

}  // namespace plumb
