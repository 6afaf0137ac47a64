// Text to train on: a file, a corpus that plumb makes, or one fetched once and kept.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace plumb {

struct Corpus {
  std::string name;     // as asked for
  std::u32string text;  // code points
  std::string sha256;   // of the UTF-8 bytes

  /// Where the process that wrote the text is known (`embedded`), else empty: the mean exact -ln p of the
  /// targets of non-overlapping blocks of a text that it wrote (see Blocks), each given the inputs of its own
  /// block only, in nats a token. It bounds what a model can reach only where the tokenizer covers the whole
  /// text.
  std::function<double(std::u32string_view validation, std::int64_t block_size)> floor{};
  /// The same without blocks: the process's entropy rate as estimated on this text, in nats a token.
  std::function<double(std::u32string_view validation)> entropy_rate{};
};

/// Told what is going on before anything slow ("fetching chinese-poetry 2.0.1 (82 MB) with npm …"), and about
/// once a second while it goes on.
using Progress = std::function<void(std::string_view)>;

/// A corpus that load_corpus knows by name.
struct KnownCorpus {
  std::string_view name;
  std::string_view what;  // "57,607 Tang poems …", half a line for a list
  Corpus (*load)(const std::filesystem::path& cache_dir, const Progress& progress);
};

/// All of them, the default one first.
std::span<const KnownCorpus> known_corpora();

/// $PLUMB_CACHE, else $XDG_CACHE_HOME/plumb, else ~/.cache/plumb. bad_input when none of the variables is
/// set.
std::filesystem::path default_cache_dir();

/// A known corpus (embedded.h, tang.h), or else the UTF-8 text file of that path. bad_input for a missing or
/// empty file and for bad UTF-8 (with the byte offset); fail() when fetching does not work, with what to do.
/// An empty `cache_dir` is the default one.
Corpus load_corpus(std::string_view name_or_path, const std::filesystem::path& cache_dir,
                   const Progress& progress = {});

}  // namespace plumb
