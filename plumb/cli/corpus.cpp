// plumb corpus: fetch, keep, describe.
#include <fmt/format.h>

#include "plumb/base/error.h"
#include "plumb/base/json.h"
#include "plumb/base/wrap.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/live.h"
#include "plumb/cli/say.h"
#include "plumb/data/baselines.h"
#include "plumb/data/batches.h"
#include "plumb/data/text_corpus.h"
#include "plumb/data/tokenizer.h"

namespace plumb::cli {

Corpus open_corpus(const std::string& name, bool quiet) {
  return load_corpus(name, {}, [&](std::string_view s) {
    if (!quiet) say("{}\n", s);
  });
}

Json baselines_json(const Baselines& b) {
  Json j = Json::object();
  j["uniform"] = b.uniform;
  j["unigram"] = b.unigram;
  j["bigram"] = b.bigram;
  j["trigram"] = b.trigram;
  return j;
}

namespace {

int list_corpora(bool json) {
  Json j = Json::object(), all = Json::array();
  for (const KnownCorpus& c : known_corpora()) {
    Json one = Json::object();
    one["name"] = c.name, one["what"] = c.what;
    all.push_back(one);
    if (!json) fmt::print("{}\n", wrapped_behind(fmt::format("{:<10} ", c.name), c.what, terminal_width()));
  }
  j["corpora"] = all;
  if (json)
    fmt::print("{}\n", j.dump());
  else
    fmt::print(
        "or the path of a UTF-8 text file; `plumb corpus NAME` describes one, data.corpus trains on it\n");
  return 0;
}

}  // namespace

int corpus_command(const Flags& f) {
  if (f.args.empty()) return list_corpora(f.json);
  if (f.args.size() > 1) bad_input("name one corpus: `plumb corpus embedded`, or a UTF-8 text file");
  Flags rest = f;
  rest.args.clear();
  Config config = config_of(rest);
  const Corpus c = open_corpus(f.args.front(), f.quiet);
  const CharTokenizer tokenizer(c.text, config.data.vocab_size);
  const auto tokens = tokenizer.encode(c.text);
  const Split split = split_tokens(tokens, config.data.split, config.model.block_size);
  const Baselines b = baselines(split.train, split.validation, tokenizer.vocab_size());
  if (f.json) {
    Json j = Json::object();
    j["corpus"] = c.name;
    j["characters"] = static_cast<std::int64_t>(c.text.size());
    j["sha256"] = c.sha256;
    j["vocab_size"] = tokenizer.vocab_size();
    j["coverage"] = tokenizer.coverage(c.text);
    j["baselines"] = baselines_json(b);
    const auto validation = std::u32string_view(c.text).substr(split.train.size());
    j["floor"] = c.floor ? Json(c.floor(validation, config.model.block_size)) : Json();
    j["entropy_rate"] = c.entropy_rate ? Json(c.entropy_rate(validation)) : Json();
    fmt::print("{}\n", j.dump());
    return 0;
  }
  fmt::print("{}: {} characters, sha256 {}\n", c.name, c.text.size(), c.sha256);
  fmt::print("{} symbols (one for the unknown) cover {:.2f} %\n", tokenizer.vocab_size(),
             100 * tokenizer.coverage(c.text));
  fmt::print(
      "baselines on the validation split, nats a token: uniform {:.3f}, unigram {:.3f}, bigram {:.3f}, "
      "trigram {:.3f}\n",
      b.uniform, b.unigram, b.bigram, b.trigram);
  if (c.floor) {
    const auto validation = std::u32string_view(c.text).substr(split.train.size());
    fmt::print("what wrote it is known: exact floor in blocks of {} {:.3f}, without blocks {:.3f}\n",
               config.model.block_size, c.floor(validation, config.model.block_size),
               c.entropy_rate(validation));
  }
  return 0;
}

}  // namespace plumb::cli
