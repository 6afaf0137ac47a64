// Which parts a trained model needs: its loss on held-out text with each part switched off, and how well
// cheaper numbers tell the same.
//
// Off at 0: the part's value becomes 0. Off at the mean: it becomes its own mean over the held-out positions,
// which is nearer to what the rest of the model was trained with (Wang et al. 2022, arXiv
// 2211.00593). What is no value is replaced: docs/ablate.md says what by.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/data/baselines.h"
#include "plumb/study/patient.h"
#include "plumb/study/statistics.h"
#include "plumb/surgery/parts.h"

namespace plumb {

struct AblateOptions {
  std::int64_t sequences = 64;  // held-out, evenly spread
  std::int64_t draws = 3;       // of noise on a part's parameters; 0: no proxies
  std::string slots = {};  // FFN slots: "dead", or how many of the least and of the most active; empty: none
  std::function<void(double share)> progress = {};
  std::function<bool()> interrupted = {};
};

/// The loss with a part off, and its difference to the whole model's, paired by sequence. NaN or infinite
/// where the model broke.
struct Effect {
  double loss = 0;
  PairedDifference delta;
};

/// What is cheaper than an ablation; empty where a part has none.
///   perturbation       mean |change of the loss| with noise of 1 % of the rms of each of its parameters
///   grad_norm          norm of the gradient of the loss in its parameters
///   grad_times_weight  |Σ gradient (off - weight)| over the parameters that switch it off: the first term of
///                      the Taylor series of the ablation (Molchanov et al. 2019, arXiv 1906.10771; of
///                      activations: 2017, arXiv 1611.06440)
///   activation         rms of the value that is switched off over that of the stream its sub-layer reads
struct Proxies {
  std::optional<double> perturbation, grad_norm, grad_times_weight, activation;
};

struct AblatedPart {
  Part part;
  std::optional<Effect> zero, mean;
  Proxies proxies;
};

/// How a proxy ranks parts that do not overlap: the sub-layers, the heads, or the gains of norms.
struct ProxyRank {
  std::string proxy, over;
  RankCorrelation with_zero, with_mean;
};

struct Ablation {
  std::int64_t step = 0, sequences = 0, targets = 0;
  double loss = 0;  // of the whole model
  Baselines baselines{};
  std::vector<AblatedPart> parts = {};
  std::vector<ProxyRank> ranks = {};
  std::vector<std::string> remarks = {};
};

/// The parameters are as before afterwards. Error where the whole model's loss is not finite; with exit
/// status 130 when the person asked to stop.
Ablation ablate(Patient&, ThreadPool&, const AblateOptions& = {});

/// The names of the four proxies, in the order in which people read them.
const std::vector<std::string>& proxy_names();
std::optional<double> proxy(const Proxies&, std::string_view name);

}  // namespace plumb
