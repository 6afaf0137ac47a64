// Text to train on: a file, or a corpus fetched once and kept.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace plumb {

struct Corpus {
  std::string name;     // as asked for
  std::u32string text;  // code points
  std::string sha256;   // of the UTF-8 bytes
};

/// Told what is going on before anything slow ("fetching chinese-poetry 2.0.1 (82 MB) with npm …").
using Progress = std::function<void(std::string_view)>;

/// $PLUMB_CACHE, else $XDG_CACHE_HOME/plumb, else ~/.cache/plumb. bad_input when none of the variables is
/// set.
std::filesystem::path default_cache_dir();

/// `tang`: the first 4,003 poems of the npm package chinese-poetry 2.0.1 (its files poet.tang.*.json in
/// numeric order, a poem's paragraphs joined, a newline between poems: 241,762 characters), fetched on first
/// use and kept in `cache_dir`. Anything else is the path of a UTF-8 text file. bad_input for a missing or
/// empty file and for bad UTF-8 (with the byte offset); fail() when fetching does not work, with what to do. An empty `cache_dir` is the default one.
Corpus load_corpus(std::string_view name_or_path, const std::filesystem::path& cache_dir,
                   const Progress& progress = {});

}  // namespace plumb
