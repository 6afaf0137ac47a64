#include "plumb/study/short_run.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/study/scratch.h"

namespace plumb {

Config shortened_to(const Config& given, std::int64_t steps) {
  Config c = given;
  const double by =
      static_cast<double>(steps) / static_cast<double>(std::max<std::int64_t>(steps, c.train.steps));
  c.train.warmup = std::llround(static_cast<double>(c.train.warmup) * by);
  c.train.steps = steps;
  c.train.eval_every = c.train.checkpoint_every = 0;
  return c;
}

TrainResult short_run(Config c, std::int64_t seed, const Components& components, const Corpus& corpus,
                      const std::function<bool()>& interrupted) {
  const Scratch dir;
  c.train.seed = seed;
  TrainEvents events;
  events.interrupted = interrupted;
  TrainResult r = train({.config = std::move(c), .out = dir.path / "run"}, components, corpus, events);
  if (r.status == "interrupted") throw Error("interrupted; nothing was written", 130);
  return r;
}

}  // namespace plumb
