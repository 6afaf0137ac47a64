// The corpus `embedded`: made up, always there, and with a known best loss.
#pragma once
#include <cstdint>

#include "plumb/data/text_corpus.h"

namespace plumb {

constexpr std::uint64_t embedded_seed = 1;
constexpr std::int64_t embedded_length = 250'000;

/// About `embedded_length` characters of the default VerseModel (verse_model.h), with its floor and entropy
/// rate. The same seed gives the same text on every machine.
Corpus embedded_corpus(std::uint64_t seed = embedded_seed);

}  // namespace plumb
