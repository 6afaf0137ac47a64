#include "plumb/data/embedded.h"

#include <memory>

#include "plumb/base/sha256.h"
#include "plumb/base/text.h"
#include "plumb/data/verse_filter.h"
#include "plumb/data/verse_model.h"

namespace plumb {

Corpus embedded_corpus(std::uint64_t seed) {
  const auto model = std::make_shared<const VerseModel>(VerseSpec{}, seed);
  Corpus corpus{.name = "embedded", .text = model->text(embedded_length), .sha256 = ""};
  corpus.sha256 = sha256_hex(utf8_encode(corpus.text));
  corpus.floor = [model](std::u32string_view text, std::int64_t block_size) {
    return verse_floor(*model, text, block_size);
  };
  corpus.entropy_rate = [model](std::u32string_view text) { return verse_entropy_rate(*model, text); };
  return corpus;
}

}  // namespace plumb
