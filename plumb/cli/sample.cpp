// plumb sample: text from a trained model.
#include "plumb/train/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/base/json.h"
#include "plumb/cli/flags.h"
#include "plumb/cli/interrupt.h"
#include "plumb/cli/say.h"
#include "plumb/train/opened.h"

namespace plumb::cli {

int sample_command(const Flags& f) {
  if (f.args.size() != 1) bad_input("name one run or checkpoint: `plumb sample runs/… --prompt 'The '`");
  if (std::isnan(f.temperature)) bad_input("--temperature is no number; give one from 0 to 100");
  if (!f.ids.empty()) return sample_ids(f);
  if (f.logits) bad_input("--logits needs token ids: `plumb sample MODEL --ids 5,3,9 --logits`");
  const Opened run = open_run(f.args.front(), Components{});
  note_faults(run.info.config, f.quiet);
  const DecoderSpec& spec = run.info.spec;
  const std::string start = f.prompt.empty() ? "\n" : f.prompt;
  std::vector<std::int32_t> prompt = run.tokenizer.encode(start, "the prompt");
  if (f.prompt.empty() && prompt.front() == CharTokenizer::unknown_id)
    prompt = {1};  // no newline: the most frequent character
  const auto unknown = std::ranges::count(prompt, CharTokenizer::unknown_id);
  if (unknown > 0 && !f.quiet)
    say("note: {} character(s) of the prompt are not in the model's vocabulary and are read as unknown\n",
        unknown);

  const auto used = static_cast<std::int64_t>(prompt.size());
  const std::int64_t wanted = tokens_wanted(f, spec, used);

  CachedDecoder decoder(spec, Components{}, run.store, spec.block_size);
  const Sampling how{f.temperature, f.top_k, static_cast<std::uint64_t>(f.seed)};
  listen_for_interrupts();
  Json texts = Json::array();
  for (std::int64_t s = 0; s < f.samples && !interrupted(); ++s) {
    decoder.restart();
    std::span<const float> logits;
    for (const std::int32_t t : prompt) logits = decoder.next(t);
    std::vector<std::int32_t> tokens;
    if (!f.json) fmt::print("{}", f.prompt);
    while (!interrupted()) {
      tokens.push_back(draw(logits, how, s, static_cast<std::int64_t>(tokens.size())));
      if (!f.json) {
        fmt::print("{}", run.tokenizer.decode({&tokens.back(), 1}));
        std::fflush(stdout);
      }
      if (static_cast<std::int64_t>(tokens.size()) == wanted) break;
      logits = decoder.next(tokens.back());
    }
    if (!f.json) fmt::print("\n{}", s + 1 < f.samples ? "---\n" : "");
    texts.push_back(f.prompt + run.tokenizer.decode(tokens));
  }
  if (f.json) {
    Json j = Json::object();
    j["run"] = f.args.front();
    if (const auto& wrong = run.info.config.fault.inject; !wrong.empty()) j["faults"] = Json(wrong);
    j["step"] = run.info.step;
    j["seed"] = f.seed;
    j["texts"] = texts;
    fmt::print("{}\n", j.dump());
  }
  return interrupted() ? 130 : 0;
}

}  // namespace plumb::cli
