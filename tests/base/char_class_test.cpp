// Classes of characters of several scripts (Unicode's categories), and text made visible.
#include "plumb/base/char_class.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

TEST(CharClass, FollowsUnicode) {
  const std::pair<char32_t, CharClass> known[] = {
      {U'A', CharClass::upper},     {U'Ä', CharClass::upper},      {U'Ж', CharClass::upper},
      {U'a', CharClass::lower},     {U'ß', CharClass::lower},      {U'春', CharClass::letter},
      {U'ش', CharClass::letter},    {U'7', CharClass::digit},      {U'Ⅷ', CharClass::digit},
      {U' ', CharClass::space},     {U'\u3000', CharClass::space}, {U'\t', CharClass::space},
      {U'.', CharClass::mark},      {U'，', CharClass::mark},      {U'+', CharClass::mark},
      {U'€', CharClass::mark},      {U'\n', CharClass::line_end},  {U'\a', CharClass::other},
      {U'\ufffd', CharClass::other}};
  for (const auto& [c, want] : known)
    EXPECT_EQ(class_name(class_of(c)), class_name(want)) << static_cast<int>(c);
}

TEST(CharClass, ShowsWhatCannotBeSeen) {
  EXPECT_EQ(visible(U"a b\n\t"), "a b\\n\\t");
  EXPECT_EQ(visible(U"\a\u007f\u200b春"), "\\x07\\x7f\\u200b春");
  EXPECT_TRUE(is_opening(U'(') && is_opening(U'[') && is_opening(U'「') && is_opening(U'“'));
  EXPECT_FALSE(is_opening(U')') || is_opening(U'<') || is_opening(U'"'));
  EXPECT_TRUE(is_vowel(U'E') && is_vowel(U'u'));
  EXPECT_FALSE(is_vowel(U'y') || is_vowel(U'\n'));
}

}  // namespace
}  // namespace plumb
