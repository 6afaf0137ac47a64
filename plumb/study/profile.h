// One forward and backward pass of a model, measured layer by layer, beside what theory expects at init.
#pragma once
#include <filesystem>

#include "plumb/config/config.h"
#include "plumb/data/text_corpus.h"
#include "plumb/model/components.h"
#include "plumb/trace/trace.h"

namespace plumb {

struct Profile {
  std::int64_t step = 0;                  // updates applied: 0 at init
  double loss = 0, uniform = 0;           // of the batch; ln V
  std::string non_finite;                 // the first tensor that is not finite, when the loss is not
  StepRow row;                            // what the probes measured: docs/trace.md
  std::vector<double> predicted_act_std;  // at init, for independent inputs; NaN where no theory is known
};

/// Of a fresh model of `config`, or, with `checkpoint` not empty, of that run or checkpoint. One training
/// batch of `corpus`.
Profile profile(const Config& config, const std::filesystem::path& checkpoint, const Components&,
                const Corpus&);

}  // namespace plumb
