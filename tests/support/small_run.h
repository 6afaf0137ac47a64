// Whole runs that take a fraction of a second.
#pragma once
#include "plumb/base/rng.h"
#include "plumb/base/text.h"
#include "plumb/study/observe.h"
#include "plumb/train/trainer.h"

namespace plumb::test {

// Words in a random order: enough structure for a loss to fall below the unigram baseline.
inline Corpus made_up_text() {
  const std::string words[] = {"the ", "cat ", "sat ", "on ", "a ", "mat.\n", "dogs ", "ran ", "far "};
  const Stream s = stream(3, "text");
  std::string text;
  for (std::uint64_t i = 0; i < 3000; ++i) text += words[s.below(std::size(words), 0, 0, i)];
  return {"made up", utf8_decode(text, "made up"), "-"};
}

inline Config small_config() {
  Config c;
  for (const char* s :
       {"model.n_layer=2", "model.d_model=32", "model.n_head=4", "model.d_ff=64", "model.block_size=16",
        "train.steps=60", "train.batch_size=12", "train.warmup=10", "train.eval_every=30",
        "train.checkpoint_every=20", "train.threads=2", "probe.every=10"})
    set_value(c, s);
  return c;
}

inline TrainResult run(const TrainJob& job, bool probed = true,
                       const std::function<bool()>& interrupted = {}) {
  std::optional<ProbeSet> probes;
  TrainEvents events;
  if (probed)
    events.observe = [&](const DecoderSpec& s) {
      probes.emplace(s);
      return observers_of(*probes);
    };
  events.interrupted = interrupted;
  return train(job, Components{}, made_up_text(), events);
}
inline TrainResult run(const Config& c, const std::filesystem::path& out, bool probed = true,
                       const std::function<bool()>& interrupted = {}) {
  return run(TrainJob{.config = c, .out = out}, probed, interrupted);
}

inline std::function<bool()> after(int steps) {
  return [steps, asked = 0]() mutable { return ++asked > steps; };
}

}  // namespace plumb::test
