#include "plumb/base/text.h"

#include <gtest/gtest.h>

#include "tests/support/error_text.h"

namespace plumb {
namespace {

using test::error_text;

TEST(EditDistance, CountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);  // Levenshtein's usual example
  EXPECT_EQ(edit_distance("ca", "ac"), 1U);
  EXPECT_EQ(edit_distance("ca", "abc"),
            3U);  // optimal string alignment, where Damerau's full distance would be 2
}

TEST(NearestName, FindsATypoAndNothingFarAway) {
  const std::vector<std::string> known{"layer", "rms", "batch", "none"};
  EXPECT_EQ(nearest_name("lyer", known), "layer");
  EXPECT_EQ(nearest_name("btach", known), "batch");
  EXPECT_EQ(nearest_name("quantum", known), std::nullopt);
  EXPECT_EQ(nearest_name("x", known), std::nullopt);
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
  // Two edits of a short name: only where it begins alike and keeps half.
  EXPECT_EQ(nearest_name("fp8", std::vector<std::string>{"fp32"}), "fp32");
  EXPECT_EQ(nearest_name("zero", std::vector<std::string>{"derf"}), std::nullopt);
  EXPECT_EQ(nearest_name("foo", std::vector<std::string>{"ffn"}), std::nullopt);
}

TEST(UnknownName, NamesTheNearestAndAll) {
  const std::vector<std::string> known{"layer", "rms"};
  EXPECT_EQ(unknown_name("norm", "lyer", known),
            "unknown norm 'lyer'; did you mean 'layer'? known: layer, rms");
  EXPECT_EQ(unknown_name("norm", "quantum", known), "unknown norm 'quantum'; known: layer, rms");
}

TEST(Utf8, GoesThereAndBack) {
  const std::string text = "aé中😀\n";
  EXPECT_EQ(utf8_decode(text, "x"), U"aé中😀\n");
  EXPECT_EQ(utf8_encode(U"aé中😀\n"), text);
  EXPECT_EQ(utf8_encode(std::u32string{0xd800, 0x110000}), "\xef\xbf\xbd\xef\xbf\xbd");
}

// RFC 3629, section 3 and 4: what is not well-formed, and where.
TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(bad_utf8_offset("plain"), std::nullopt);
  EXPECT_EQ(bad_utf8_offset("ab\xff"), 2U);
  EXPECT_EQ(bad_utf8_offset("中\x80"), 3U);             // a continuation byte by itself
  EXPECT_EQ(bad_utf8_offset("\xc0\xaf"), 0U);           // overlong
  EXPECT_EQ(bad_utf8_offset("\xed\xa0\x80"), 0U);       // a surrogate
  EXPECT_EQ(bad_utf8_offset("a\xf4\x90\x80\x80"), 1U);  // beyond U+10FFFF
  EXPECT_EQ(bad_utf8_offset("a\xe4\xb8"), 1U);          // cut off
  EXPECT_EQ(error_text([] { utf8_decode("ab\xff", "the corpus x.txt"); }),
            "the corpus x.txt is not UTF-8: byte 0xff at offset 2 belongs to no character; convert the text "
            "to UTF-8");
}

}  // namespace
}  // namespace plumb
