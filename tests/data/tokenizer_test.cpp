#include "plumb/data/tokenizer.h"

#include <gtest/gtest.h>

#include "tests/support/error_text.h"

namespace plumb {
namespace {

using test::error_text;
using Ids = std::vector<std::int32_t>;

// c: 3 times, a and b: twice each (so a before b), d and 中: once each.
const std::u32string text = U"ccabcabd中";

TEST(CharTokenizer, GivesIdsByFrequencyThenCodePoint) {
  const CharTokenizer tokenizer(text, 5);
  EXPECT_EQ(tokenizer.vocab_size(), 5);
  EXPECT_EQ(tokenizer.encode(U"cabd中x"), (Ids{1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(tokenizer.encode("中c", "the prompt"), (Ids{0, 1}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 2, 3, 4, 0}), "cabd\xef\xbf\xbd");
  EXPECT_DOUBLE_EQ(tokenizer.coverage(text), 8.0 / 9);
  EXPECT_EQ(tokenizer.coverage(U""), 1);
}

TEST(CharTokenizer, HasFewerTokensThanAskedForWhenTheTextHas) {
  const CharTokenizer tokenizer(text, 1200);
  EXPECT_EQ(tokenizer.vocab_size(), 6);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), "ccabcabd中");
  EXPECT_EQ(tokenizer.coverage(text), 1);
}

TEST(CharTokenizer, ComesBackFromJson) {
  const CharTokenizer tokenizer(text, 5);
  EXPECT_EQ(tokenizer.to_json().dump(), R"({"kind":"char","characters":"cabd"})");
  EXPECT_EQ(CharTokenizer::from_json(tokenizer.to_json(), "x").encode(text), tokenizer.encode(text));
}

TEST(CharTokenizer, SaysWhatIsWrong) {
  EXPECT_EQ(error_text([] { CharTokenizer(text, 1); }),
            "a character tokenizer cannot have 1 tokens; set data.vocab_size to 2 or more");
  EXPECT_EQ(error_text([] { CharTokenizer(U"", 5); }),
            "a character tokenizer cannot be made from an empty text; check data.corpus");
  EXPECT_EQ(error_text([] { (void)CharTokenizer(text, 5).decode(Ids{5}); }),
            "token 5 is outside of the vocabulary 0 … 4; check that text and tokenizer belong together");
  EXPECT_EQ(
      error_text([] { (void)CharTokenizer(text, 5).encode("a\xff", "the prompt"); }),
      "the prompt is not UTF-8: byte 0xff at offset 1 belongs to no character; convert the text to UTF-8");
  EXPECT_EQ(error_text([] {
              CharTokenizer::from_json(Json::parse(R"({"kind":"bpe","characters":"a"})", "x"),
                                       "a.safetensors");
            }),
            "a.safetensors has a tokenizer of kind \"bpe\", but \"char\" is read here; use the matching "
            "version of plumb");
  EXPECT_EQ(error_text([] {
              CharTokenizer::from_json(Json::parse(R"({"kind":"char","characters":"aba"})", "x"),
                                       "a.safetensors");
            }),
            "a.safetensors: characters must have one or more characters, each once; get the file again");
}

}  // namespace
}  // namespace plumb
