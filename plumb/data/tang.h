// Tang poems out of the npm package chinese-poetry 2.0.1 (MIT licence), fetched once and kept.
#pragma once
#include <filesystem>

#include "plumb/data/text_corpus.h"

namespace plumb {

/// The package's files poet.tang.*.json in numeric order, a poem's paragraphs joined, a newline between
/// poems: all 57,607 poems (3,725,688 characters), or the first 4,003 (241,762 characters).
enum class TangText { first_4003, full };

/// Kept in `cache_dir` (empty: default_cache_dir()); one download gives both texts. A kept file whose SHA-256
/// is not the expected one is replaced. fail() when fetching does not work: no npm, no network, a full disk,
/// other poems.
Corpus tang_corpus(TangText which, const std::filesystem::path& cache_dir, const Progress& progress);

}  // namespace plumb
