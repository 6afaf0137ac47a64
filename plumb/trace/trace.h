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
    Metric{"logit_entropy", false, "nats",
           "mean entropy of the predictions; ln(vocabulary) where all classes are equally likely"},
    Metric{"log_z", false, "nats", "mean log-sum-exp of the logits"},
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
    Metric{"act_rms", true, "-", "root mean square of the residual stream at `blocks.{i}.out`"},
    Metric{"act_mean", true, "-", "mean of the residual stream at `blocks.{i}.out`"},
    Metric{
        "act_kurtosis", true, "-",
        "fourth central moment over the squared variance at `blocks.{i}.out`; 3 for a normal distribution"},
    Metric{"act_max", true, "-", "largest absolute value at `blocks.{i}.out`"},
    Metric{"token_cosine", true, "-",
           "mean cosine of two different positions of a sequence at `blocks.{i}.out`; 1: they are all alike, "
           "rank collapse"},
    Metric{"attn_write_std", true, "-",
           "standard deviation of what the attention branch writes to the stream"},
    Metric{"ffn_write_std", true, "-",
           "standard deviation of what the feed-forward branch writes to the stream"},
    Metric{"attn_write_ratio", true, "-",
           "rms of the attention branch's write over that of the stream at `blocks.{i}.in`"},
    Metric{"ffn_write_ratio", true, "-",
           "rms of the feed-forward branch's write over that of the stream at `blocks.{i}.mid`, or `.in` "
           "where the branches are parallel"},
    Metric{"identity_share", true, "-",
           "‖v‖² / (‖v‖² + ‖g - v‖²) with the loss gradients v at the last block's output and g at this "
           "one's; 1: the gradient comes back by the identity path alone"},
    Metric{"norm_in_mean_over_std", true, "-",
           "rms over positions of a row's mean over its standard deviation, at what the attention branch's "
           "norm reads; RMSNorm and LayerNorm differ by it"},
    Metric{"gain_drift", true, "-",
           "root mean square of the block's norm gains less what they started at, before the update"},
    Metric{"ffn_active", true, "-",
           "share of positions and slots of the feed-forward layer whose pre-activation (of the gate, where "
           "there is one) is above 0"},
    Metric{"ffn_dead", true, "-",
           "share of slots whose pre-activation is above 0 at no position of the batch"},
    Metric{"ffn_dead_small", true, "-",
           "share of slots whose output (times the gated value, where there is one) is at no position of the "
           "batch above 0.1 in absolute value"},
    Metric{"ffn_revived", true, "slots",
           "slots that were dead (`ffn_dead`) when last measured and are not now"},
    Metric{"ffn_key_cosine_mean", true, "-",
           "mean cosine of two different rows of the matrix before the activation (of one expert, where "
           "there are several)"},
    Metric{"ffn_key_cosine_max", true, "-", "largest cosine of two different rows of that matrix"},
    Metric{"ffn_near_duplicates", true, "pairs", "pairs of rows of that matrix whose cosine is above 0.95"},
    Metric{"head_cosine", true, "-",
           "mean over positions and pairs of heads of the absolute cosine of their context vectors"},
    Metric{"weight_grad_rms", true, "-",
           "root mean square of the loss gradient of the block's weight matrices"},
    Metric{"grads_below_eps", true, "-",
           "share of the elements of that gradient below 1e-8, Adam's usual epsilon, in absolute value"},
    Metric{"updates_kept", true, "-",
           "share of the elements of the block's weight matrices that the update changed"},
};

/// CRC-32 (IEEE 802.3, as in zlib and PNG) of `bytes`.
std::uint32_t crc32(std::string_view bytes) noexcept;
/// CRC-32C (Castagnoli, RFC 3720 appendix B.4), which TensorBoard's files use.
std::uint32_t crc32c(std::string_view bytes) noexcept;

}  // namespace plumb
