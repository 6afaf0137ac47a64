#include "plumb/base/wrap.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumb {
namespace {

TEST(Wrapped, FillsLinesAndIndentsTheLaterOnes) {
  EXPECT_EQ(wrapped("", 30, 2), "");
  EXPECT_EQ(wrapped("one line", 30, 2), "one line");
  EXPECT_EQ(wrapped("aaaa bbbb cccc dddd eeee ffff", 24, 0), "aaaa bbbb cccc dddd eeee\nffff");
  EXPECT_EQ(wrapped("aaaa bbbb cccc dddd eeee ffff", 24, 4), "aaaa bbbb cccc dddd\n    eeee ffff");
  // Columns, not bytes; and a word that fits nowhere stays whole.
  EXPECT_EQ(wrapped("éééé éééé éééé éééé éééé", 24, 0), "éééé éééé éééé éééé éééé");
  EXPECT_EQ(wrapped("a " + std::string(40, 'x') + " b", 24, 0), "a\n" + std::string(40, 'x') + "\nb");
}

TEST(Wrapped, KeepsRoomForWordsBesideAWideIndent) {
  EXPECT_EQ(wrapped("aaaa bbbb", 30, 60), "aaaa bbbb");
  EXPECT_EQ(wrapped_behind("étage: ", "aaaa bbbb cccc dddd eeee ffff", 27),
            "étage: aaaa bbbb cccc dddd\n       eeee ffff");
}

TEST(Shortened, InTheMiddle) {
  EXPECT_EQ(shortened("runs/short", 10), "runs/short");
  EXPECT_EQ(shortened("runs/a-long-name-1", 9), "runs…me-1");
  EXPECT_EQ(display_width(shortened("詩詩詩詩詩詩詩詩", 4)), 4U);
  EXPECT_EQ(shortened("abc", 0), "");
}

TEST(NumberText, NaNHasNoSign) {
  EXPECT_EQ(number_text(-std::nan("")), "NaN");
  EXPECT_EQ(number_text(std::nan(""), "{:.4f}"), "NaN");
  EXPECT_EQ(number_text(1.5, "{:.2f}"), "1.50");
  EXPECT_EQ(number_text(-INFINITY), "-inf");
}

}  // namespace
}  // namespace plumb
