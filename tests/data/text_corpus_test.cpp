#include "plumb/data/text_corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "plumb/base/files.h"
#include "plumb/base/sha256.h"
#include "plumb/data/tokenizer.h"
#include "tests/support/error_text.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

using test::error_text;

// An environment variable, put back when the test ends.
class Variable {
 public:
  explicit Variable(std::string name) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old, had_ = true;
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (had_)
      ::setenv(name_.c_str(), old_.c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }
  void set(const std::string& value) const { ::setenv(name_.c_str(), value.c_str(), 1); }
  void unset() const { ::unsetenv(name_.c_str()); }

 private:
  std::string name_, old_;
  bool had_ = false;
};

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
            "there is no corpus '" + path + "': neither a file nor a known name (tang); correct data.corpus");
  EXPECT_EQ(code, 2);
  write_file_atomic(path, "");
  EXPECT_EQ(error_text([&] { load_corpus(path, dir.path); }),
            "the corpus " + path + " is empty; choose a file with text");
  write_file_atomic(path, "ab\xff");
  EXPECT_EQ(error_text([&] { load_corpus(path, dir.path); }),
            "the corpus " + path +
                " is not UTF-8: byte 0xff at offset 2 belongs to no character; convert the text to UTF-8");
}

TEST(Corpus, SaysWhatToDoWithoutNpm) {
  const test::TempDir dir;
  const Variable path("PATH");
  path.set(dir.path.string());
  std::vector<std::string> said;
  EXPECT_EQ(error_text([&] {
              load_corpus("tang", dir / "cache", [&](std::string_view s) { said.emplace_back(s); });
            }),
            "npm is not installed, but fetching the corpus 'tang' needs it; install Node.js with npm and go "
            "online once, or name a text "
            "file as data.corpus");
  EXPECT_EQ(said, std::vector<std::string>{
                      "fetching chinese-poetry@2.0.1 (82 MB) with npm, once; the text is then kept in " +
                      (dir / "cache").string()});
  EXPECT_TRUE(std::filesystem::is_empty(dir / "cache"));  // nothing half-done stays
}

TEST(Corpus, SaysWhatToDoOffline) {
  const test::TempDir dir;
  write_file_atomic(dir / "npm", "#!/bin/sh\necho 'npm ERR! network is unreachable' >&2\nexit 1\n");
  std::filesystem::permissions(dir / "npm", std::filesystem::perms::owner_all);
  const Variable path("PATH");
  path.set(dir.path.string());
  EXPECT_EQ(error_text([&] { load_corpus("tang", dir / "cache"); }),
            "fetching the corpus 'tang' needs 'npm pack chinese-poetry@2.0.1 --loglevel=error "
            "--fetch-retries=1', which ended with "
            "status 1 (npm ERR! network is unreachable); install Node.js with npm and go online once, or "
            "name a text file as "
            "data.corpus");
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

// The chapter's corpus: 4,003 poems and 241,762 characters; 1,199 characters cover 87.69 % of it, and the
// entropy of its characters with the rest as one is 5.660 nats (counted with another program).
TEST(SlowTang, IsTheChaptersCorpus) {
  const test::TempDir dir;
  const Corpus corpus = load_corpus("tang", dir.path);
  EXPECT_EQ(corpus.text.size(), 241762U);
  EXPECT_EQ(std::count(corpus.text.begin(), corpus.text.end(), U'\n') + 1, 4003);
  EXPECT_TRUE(corpus.text.starts_with(U"秦川雄帝宅，函谷壯皇居。"));

  const CharTokenizer tokenizer(corpus.text, 1200);
  EXPECT_EQ(tokenizer.vocab_size(), 1200);
  EXPECT_NEAR(tokenizer.coverage(corpus.text), 0.8769, 5e-5);
  std::map<std::int32_t, double> counts;
  for (const std::int32_t id : tokenizer.encode(corpus.text)) ++counts[id];
  double entropy = 0;
  for (const auto& [id, n] : counts) entropy -= n / 241762 * std::log(n / 241762);
  EXPECT_NEAR(entropy, 5.660, 5e-4);

  // Kept, and fetched again when damaged; nothing else stays in the cache.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path), {}), 1);
  const Variable path("PATH");
  path.set("");
  EXPECT_EQ(load_corpus("tang", dir.path).sha256, corpus.sha256);
  write_file_atomic(std::filesystem::directory_iterator(dir.path)->path(), "damaged");
  std::vector<std::string> said;
  EXPECT_NE(
      error_text([&] { load_corpus("tang", dir.path, [&](std::string_view s) { said.emplace_back(s); }); }),
      "(no error)");
  EXPECT_TRUE(said.at(0).ends_with(" is damaged and is fetched again"));
}

}  // namespace
}  // namespace plumb
