// Trace v1: the rows of a run, one JSON object a line. Whoever writes them (our trainer, a PyTorch hook) gets
// the doctor and the reports. docs/trace.md is the written form of this file.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plumb/base/json.h"

namespace plumb {

inline constexpr std::string_view trace_schema = "plumb-trace/1";

/// The first row: {"row":"header","schema":"plumb-trace/1","producer":"plumb 0.1.0","config":{…}}.
struct TraceHeader {
  std::string producer;
  Json config;  // the resolved config; null when the producer has none
};

/// Something structural and lasting: {"row":"fact","name":"tied","value":true}. The last row of a name
/// counts.
struct FactRow {
  std::string name;
  Json value;
};

/// One step's numbers: {"row":"step","step":25,"loss":6.1,…,"layers":{"act_std":[…],…}}. A step may have
/// several rows (loss every step, probes now and then, validation); readers join them. Non-finite numbers are
/// written as strings.
struct StepRow {
  std::int64_t step = 0;  // updates already applied when this was measured: the first row is step 0
  std::vector<std::pair<std::string, double>> values;
  std::vector<std::pair<std::string, std::vector<double>>> layers;  // item i belongs to block i

  /// The value, or nullptr.
  const double* find(std::string_view name) const;
  /// The per-layer array, or nullptr.
  const std::vector<double>* find_layers(std::string_view name) const;
};

/// A number that a step row may carry. The list is open: a reader keeps names it does not know.
struct Metric {
  std::string_view name;
  bool per_layer;
  std::string_view unit;
  std::string_view meaning;
};

inline constexpr std::array trace_metrics{
    Metric{"loss", false, "nats/token",
           "mean training loss of the step's batch: the cross-entropy, whatever else is minimised"},
    Metric{"cross_entropy", false, "nats/token", "the same as `loss`, where there is an `objective`"},
    Metric{"val_loss", false, "nats/token", "loss over the whole validation split"},
    Metric{"lr", false, "-", "learning rate of the update that follows"},
    Metric{"grad_norm", false, "-", "L2 norm of all gradients of the mean loss, before clipping"},
    Metric{"tokens", false, "tokens", "training tokens seen before this step"},
    Metric{"objective", false, "nats/token",
           "what is minimised, where it is more than `loss`: with auxiliary losses, z-loss, label smoothing"},
    Metric{"agc_clipped", false, "-",
           "share of the units (rows of matrices, whole vectors) whose gradient adaptive clipping shortened"},
    Metric{"logit_std", false, "-",
           "population standard deviation of the logits over all positions and classes"},
    Metric{"adjacent_kl", false, "nats",
           "mean KL(P_{t+1} ‖ P_t) of the predictions at adjacent positions of a sequence"},
    Metric{"act_std", true, "-", "standard deviation of the residual stream at `blocks.{i}.out`"},
    Metric{"grad_std", true, "-", "standard deviation of the loss gradient at `blocks.{i}.out`"},
    Metric{"attn_entropy", true, "-",
           "mean of H / ln(visible keys) over attention rows that see two keys or more"},
    Metric{"attn_max_logit", true, "-",
           "largest attention score, over all heads and visible pairs of positions"},
    Metric{"norm_in_std", true, "-", "standard deviation of what the attention branch's norm reads"},
    Metric{"weight_rms", true, "-", "root mean square of the block's weight matrices, before the update"},
    Metric{"update_ratio", true, "-",
           "norm of the update of the block's weight matrices over their norm before it"},
};

/// CRC-32 (IEEE 802.3, as in zlib and PNG) of `bytes`.
std::uint32_t crc32(std::string_view bytes) noexcept;
/// CRC-32C (Castagnoli, RFC 3720 appendix B.4), which TensorBoard's files use.
std::uint32_t crc32c(std::string_view bytes) noexcept;

}  // namespace plumb
