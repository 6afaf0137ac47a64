#include "plumb/base/sha256.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

// FIPS 180-4's examples.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, TakesPiecesAndStartsAnew) {
  Sha256 sum;
  for (int round = 0; round < 2; ++round) {
    sum.add("a");
    sum.add("");
    sum.add("bc");
    EXPECT_EQ(sum.hex(), sha256_hex("abc"));
  }
}

}  // namespace
}  // namespace plumb
