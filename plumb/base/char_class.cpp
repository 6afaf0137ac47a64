#include "plumb/base/char_class.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include "plumb/base/text.h"

namespace plumb {

CharClass class_of(char32_t c) {
  if (c == U'\n') return CharClass::line_end;
  if (c == U'\t') return CharClass::space;  // a control, to Unicode
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return CharClass::upper;
    case UTF8PROC_CATEGORY_LL:
      return CharClass::lower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::digit;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::space;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return c == 0xfffd ? CharClass::other : CharClass::mark;  // the sign for what is unknown
    default:
      return CharClass::other;
  }
}

bool is_vowel(char32_t c) { return std::u32string_view(U"aeiouAEIOU").find(c) != std::u32string_view::npos; }

bool is_opening(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_PS || category == UTF8PROC_CATEGORY_PI;
}

std::string visible(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    if (c == U'\n')
      out += "\\n";
    else if (c == U'\t')
      out += "\\t";
    else if (c < 0x100 && category == UTF8PROC_CATEGORY_CC)
      out += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(c));
    else if (category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_ZL ||
             category == UTF8PROC_CATEGORY_ZP || category == UTF8PROC_CATEGORY_CN)
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    else
      out += utf8_encode({&c, 1});
  }
  return out;
}

}  // namespace plumb
