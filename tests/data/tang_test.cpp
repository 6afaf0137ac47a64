// Fetching is tested with a stand-in for npm: no test uses the network. Tests of the real text read the one
// that plumb has kept before (`plumb corpus tang-full`).
#include "plumb/data/tang.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "plumb/base/files.h"
#include "plumb/base/json.h"
#include "plumb/base/sha256.h"
#include "plumb/base/text.h"
#include "plumb/data/tokenizer.h"
#include "tests/data/variable.h"
#include "tests/support/error_text.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

namespace fs = std::filesystem;
using test::error_text;
using test::Variable;

// A directory to be PATH, with an `npm` that is this shell script.
struct FakeNpm {
  test::TempDir dir;
  Variable path{"PATH"};
  std::string usual_path = std::getenv("PATH");
  explicit FakeNpm(const std::string& script) {
    write_file_atomic(dir / "npm", "#!/bin/sh\nPATH='" + usual_path + "'\n" + script + "\n");
    fs::permissions(dir / "npm", fs::perms::owner_all);
    path.set(dir.path.string() + ":" + usual_path);
  }
  fs::path cache() const { return dir / "cache"; }
  std::string refusal(TangText which = TangText::first_4003) const {
    return error_text([&] { tang_corpus(which, cache(), {}); });
  }
};

TEST(Tang, SaysWhatToDoWithoutNpm) {
  const test::TempDir dir;
  const Variable path("PATH");
  path.set(dir.path.string());
  std::vector<std::string> said;
  EXPECT_EQ(
      error_text([&] {
        tang_corpus(TangText::first_4003, dir / "cache", [&](std::string_view s) { said.emplace_back(s); });
      }),
      "npm is not installed, but fetching the corpus 'tang' needs it; install Node.js with npm and go online "
      "once, or name \"embedded\" or a text file as data.corpus");
  EXPECT_EQ(said, std::vector<std::string>{
                      "fetching chinese-poetry@2.0.1 (82 MB) with npm, once; the text is then kept in " +
                      (dir / "cache").string()});
  EXPECT_TRUE(fs::is_empty(dir / "cache"));  // nothing half-done stays
}

// What npm 11 says without a network, its last line being of no help.
TEST(Tang, SaysWhatToDoOffline) {
  const FakeNpm npm(
      "echo 'npm error code EAI_AGAIN' >&2\n"
      "echo 'npm error A complete log of this run can be found in: x' >&2\nexit 1");
  int code = 0;
  EXPECT_EQ(error_text([&] { tang_corpus(TangText::full, npm.cache(), {}); }, &code),
            "fetching the corpus 'tang-full' needs a network, once, and npm found none that works; go online "
            "and try "
            "again, or train on data.corpus = \"embedded\" or a text file, which need none");
  EXPECT_EQ(code, 1);
}

TEST(Tang, SaysThatTheDiskIsFull) {
  const FakeNpm npm("echo 'npm error code ENOSPC' >&2; exit 1");
  EXPECT_EQ(npm.refusal(), "fetching the corpus 'tang' stopped in " + npm.cache().string() +
                               ": the disk is full; free some space and try again");
}

TEST(Tang, SaysWhatNpmSaidOtherwise) {
  const FakeNpm npm("echo 'npm error code E404' >&2; exit 1");
  EXPECT_EQ(
      npm.refusal(),
      "fetching the corpus 'tang' needs 'npm pack chinese-poetry@2.0.1 --loglevel=error --fetch-retries=1 "
      "--cache=npm-cache', which ended with status 1 (npm error code E404); install Node.js with npm and go "
      "online once, or name \"embedded\" or a text file as data.corpus");
}

TEST(Tang, SaysThatThePoemsAreOthers) {
  const FakeNpm npm(
      "mkdir -p package/dist/quantangshi && cd package/dist/quantangshi\n"
      "echo '[{\"paragraphs\": [\"a\", \"b\"]}]' > poet.tang.0.json\n"
      "cd ../../.. && tar -czf chinese-poetry-2.0.1.tgz package");
  EXPECT_EQ(npm.refusal(),
            "the poems of chinese-poetry@2.0.1 are not the ones expected (their SHA-256 differs); try again, "
            "or name "
            "\"embedded\" or a text file as data.corpus");
  EXPECT_TRUE(fs::is_empty(npm.cache()));
}

TEST(Tang, TellsHowFarTheDownloadIs) {
  const FakeNpm npm(
      "for a in \"$@\"; do case $a in --cache=*) mkdir \"${a#--cache=}\" && cd \"${a#--cache=}\";; esac; "
      "done\n"
      "head -c 3000000 /dev/zero > part; sleep 2.5; exit 1");
  std::vector<std::string> said;
  error_text([&] {
    tang_corpus(TangText::first_4003, npm.cache(), [&](std::string_view s) { said.emplace_back(s); });
  });
  // Once a second; the first may come before the file is written.
  EXPECT_TRUE(std::any_of(said.begin(), said.end(), [](const std::string& s) {
    return s.starts_with("fetching: ") && s.ends_with(" s, 3 MB so far");
  }));
}

// A fetch that was killed leaves its folder; one that is at work touches its own.
TEST(Tang, RemovesFoldersThatAKilledFetchLeft) {
  const FakeNpm npm("exit 1");
  for (const char* name : {"fetch-old", "fetch-new", "other-old"})
    make_dirs(npm.cache() / name / "npm-cache");
  const auto two_hours_ago = fs::file_time_type::clock::now() - std::chrono::hours(2);
  fs::last_write_time(npm.cache() / "fetch-old", two_hours_ago);
  fs::last_write_time(npm.cache() / "other-old", two_hours_ago);
  EXPECT_NE(npm.refusal(), "(no error)");
  EXPECT_FALSE(fs::exists(npm.cache() / "fetch-old"));
  EXPECT_TRUE(fs::exists(npm.cache() / "fetch-new"));
  EXPECT_TRUE(fs::exists(npm.cache() / "other-old"));
  EXPECT_EQ(std::distance(fs::directory_iterator(npm.cache()), {}), 2);
}

// The texts themselves: from the cache, or fetched into it (82 MB, once). Only `./test --all` runs these;
// where the text can be had in neither way they fail.
class SlowTang : public testing::Test {
 protected:
  static std::string kept(const char* file, const char* corpus) {
    const fs::path path = default_cache_dir() / file;
    if (!fs::is_regular_file(path)) load_corpus(corpus, {});
    return read_file(path);
  }
  static double entropy(const CharTokenizer& tokenizer, std::u32string_view text) {
    std::map<std::int32_t, double> counts;
    for (const std::int32_t id : tokenizer.encode(text)) ++counts[id];
    double nats = 0;
    const auto total = static_cast<double>(text.size());
    for (const auto& [id, n] : counts) nats -= n / total * std::log(n / total);
    return nats;
  }
};

// The chapter's corpus: 4,003 poems and 241,762 characters; 1,199 characters cover 87.69 % of it, and the
// entropy of its characters with the rest as one is 5.660 nats (counted with another program).
TEST_F(SlowTang, IsTheChaptersCorpus) {
  const std::string bytes = kept("tang-4003.txt", "tang");
  const test::TempDir dir;
  write_file_atomic(dir / "tang-4003.txt", bytes);
  const Variable path("PATH");
  path.set("");  // whatever happens, nothing is fetched
  const Corpus corpus = load_corpus("tang", dir.path);
  EXPECT_EQ(corpus.text.size(), 241762U);
  EXPECT_EQ(corpus.sha256, sha256_hex(bytes));
  EXPECT_EQ(std::count(corpus.text.begin(), corpus.text.end(), U'\n') + 1, 4003);
  EXPECT_TRUE(corpus.text.starts_with(U"秦川雄帝宅，函谷壯皇居。"));
  const CharTokenizer tokenizer(corpus.text, 1200);
  EXPECT_EQ(tokenizer.vocab_size(), 1200);
  EXPECT_NEAR(tokenizer.coverage(corpus.text), 0.8769, 5e-5);
  EXPECT_NEAR(entropy(tokenizer, corpus.text), 5.660, 5e-4);
}

TEST(Tang, IsNotUsedWhenItIsDamaged) {
  const test::TempDir dir;
  write_file_atomic(dir / "tang-4003.txt", "damaged");
  const Variable path("PATH");
  path.set("");
  std::vector<std::string> said;
  EXPECT_NE(
      error_text([&] { load_corpus("tang", dir.path, [&](std::string_view s) { said.emplace_back(s); }); }),
      "(no error)");
  EXPECT_EQ(said.at(0), (dir / "tang-4003.txt").string() + " is damaged and is made again");
}

// Counted with a Python program of a few lines: 57,607 poems in 58 files, 3,725,688 characters, of which the
// 1,199 most frequent are 87.127 %, and 5.6649 nats with the rest as one.
TEST_F(SlowTang, IsAllPoemsAndGivesTheFirst) {
  const std::string bytes = kept("tang-full.txt", "tang-full");
  const test::TempDir dir;
  write_file_atomic(dir / "tang-full.txt", bytes);
  const Variable path("PATH");
  path.set("");
  const Corpus corpus = load_corpus("tang-full", dir.path);
  EXPECT_EQ(corpus.text.size(), 3725688U);
  EXPECT_EQ(std::count(corpus.text.begin(), corpus.text.end(), U'\n') + 1, 57607);
  const CharTokenizer tokenizer(corpus.text, 1200);
  EXPECT_NEAR(tokenizer.coverage(corpus.text), 0.87127344, 1e-8);
  EXPECT_NEAR(entropy(tokenizer, corpus.text), 5.664923059610051, 1e-9);
  const Corpus first = load_corpus("tang", dir.path);  // out of the full text, without a fetch
  EXPECT_EQ(first.text.size(), 241762U);
  EXPECT_TRUE(corpus.text.starts_with(first.text));
  EXPECT_TRUE(fs::exists(dir / "tang-4003.txt"));
}

// The whole way with the poems put back into a package of two files, whose numbers sort otherwise as words.
TEST_F(SlowTang, OneFetchGivesBoth) {
  const std::string bytes = kept("tang-full.txt", "tang-full");
  const std::size_t middle = bytes.find('\n', bytes.size() / 2);
  const auto file_of = [](std::string_view lines) {
    std::string json = "[";
    for (std::size_t begin = 0; begin <= lines.size();) {
      const std::size_t end = std::min(lines.find('\n', begin), lines.size());
      json += fmt::format("{}{{\"paragraphs\":[\"\",{}]}}", begin > 0 ? "," : "",
                          Json(std::string(lines.substr(begin, end - begin))).dump());
      begin = end + 1;
    }
    return json + "]";
  };
  const test::TempDir files;
  write_file_atomic(files / "poet.tang.9000.json", file_of(std::string_view(bytes).substr(0, middle)));
  write_file_atomic(files / "poet.tang.10000.json", file_of(std::string_view(bytes).substr(middle + 1)));
  write_file_atomic(files / "poet.song.0.json", "[]");
  const FakeNpm npm("mkdir -p package/dist && cp -r '" + files.path.string() +
                    "' package/dist/quantangshi && tar -czf chinese-poetry-2.0.1.tgz package");
  const Corpus corpus = tang_corpus(TangText::first_4003, npm.cache(), {});
  EXPECT_EQ(corpus.text.size(), 241762U);
  EXPECT_EQ(std::distance(fs::directory_iterator(npm.cache()), {}), 2);
  EXPECT_EQ(read_file(npm.cache() / "tang-full.txt"), bytes);
  EXPECT_EQ(read_file(npm.cache() / "tang-4003.txt"), bytes.substr(0, utf8_encode(corpus.text).size()));
}

}  // namespace
}  // namespace plumb
