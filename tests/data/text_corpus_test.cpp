#include "plumb/data/text_corpus.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plumb/base/files.h"
#include "plumb/base/sha256.h"
#include "plumb/base/text.h"
#include "tests/data/variable.h"
#include "tests/support/error_text.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

using test::error_text;
using test::Variable;

TEST(Corpus, IsATextFile) {
  const test::TempDir dir;
  write_file_atomic(dir / "a.txt", "床前明月光\n");
  const Corpus corpus = load_corpus((dir / "a.txt").string(), dir / "cache");
  EXPECT_EQ(corpus.text, U"床前明月光\n");
  EXPECT_EQ(corpus.sha256, sha256_hex("床前明月光\n"));
  EXPECT_FALSE(std::filesystem::exists(dir / "cache"));
}

TEST(Corpus, SaysWhatIsWrongWithAFile) {
  const test::TempDir dir;
  const std::string path = (dir / "a.txt").string();
  int code = 0;
  EXPECT_EQ(error_text([&] { load_corpus(path, dir.path); }, &code),
            "there is no corpus '" + path +
                "': neither a file nor a known name (embedded, tang, tang-full); correct data.corpus");
  EXPECT_EQ(code, 2);
  write_file_atomic(path, "");
  EXPECT_EQ(error_text([&] { load_corpus(path, dir.path); }),
            "the corpus " + path + " is empty; choose a file with text");
  write_file_atomic(path, "ab\xff");
  EXPECT_EQ(error_text([&] { load_corpus(path, dir.path); }),
            "the corpus " + path +
                " is not UTF-8: byte 0xff at offset 2 belongs to no character; convert the text to UTF-8");
}

TEST(Corpus, KnowsItsNames) {
  std::vector<std::string_view> names;
  for (const KnownCorpus& corpus : known_corpora()) {
    names.push_back(corpus.name);
    EXPECT_FALSE(corpus.what.empty());
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"embedded", "tang", "tang-full"}));
}

// Needs no cache and no network, and alone knows what it costs.
TEST(Corpus, IsTheEmbeddedOne) {
  const test::TempDir dir;
  const Corpus corpus = load_corpus("embedded", dir / "cache");
  EXPECT_EQ(corpus.name, "embedded");
  EXPECT_TRUE(corpus.floor);
  EXPECT_TRUE(corpus.entropy_rate);
  EXPECT_EQ(corpus.sha256, sha256_hex(utf8_encode(corpus.text)));
  EXPECT_FALSE(std::filesystem::exists(dir / "cache"));
  write_file_atomic(dir / "a.txt", "a");
  EXPECT_FALSE(load_corpus((dir / "a.txt").string(), dir.path).floor);
}

TEST(CacheDir, FollowsTheEnvironment) {
  const Variable own("PLUMB_CACHE"), xdg("XDG_CACHE_HOME"), home("HOME");
  own.set("/a");
  xdg.set("/b");
  home.set("/c");
  EXPECT_EQ(default_cache_dir(), "/a");
  own.unset();
  EXPECT_EQ(default_cache_dir(), "/b/plumb");
  xdg.set("");  // the XDG specification: empty counts as unset
  EXPECT_EQ(default_cache_dir(), "/c/.cache/plumb");
  home.unset();
  EXPECT_EQ(error_text([] { default_cache_dir(); }),
            "there is no place for the cache, as HOME is not set; set PLUMB_CACHE to a directory");
}

}  // namespace
}  // namespace plumb
