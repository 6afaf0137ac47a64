// residual_scale_wrong: scaled init is missing, applied twice, or has another exponent.
#include <fmt/format.h>

#include <cmath>

#include "plumb/doctor/doctor.h"

namespace plumb {
namespace {
namespace residual_scale_wrong_cause {
constexpr double most = 1.2;

// DeepNorm and NF blocks draw these matrices by rules of their own.
bool plain_writes(const Evidence& e) {
  const std::string rule = e.text("model.residual");
  return !rule.empty() && rule != "deepnorm" && rule != "nf";
}

std::optional<Finding> look(const Evidence& e) {
  const std::string scheme = e.text("init.scheme");
  // Xavier's matrices are alike times the root of both fans, LeCun's times that of fan-in.
  const auto ratio = e.number(scheme == "xavier"  ? "writer_ratio_by_fans"
                              : scheme == "lecun" ? "writer_ratio_by_fan_in"
                                                  : "writer_std_ratio"),
             n_layer = e.number("n_layer");
  if (!ratio || !n_layer || !plain_writes(e) || e.text("model.weight_param") != "plain" ||
      (scheme != "gpt2" && scheme != "normal" && scheme != "xavier" && scheme != "lecun"))
    return {};
  const Json* flag = e.setting("init.residual_scale");
  const bool scaled = scheme == "gpt2" && flag && flag->is_bool() && flag->as_bool("");
  const double want = scaled ? 1 / std::sqrt(2 * *n_layer) : 1;
  if (std::abs(std::log(*ratio / want)) < std::log(most)) return {};
  return Finding{.where = "attn.o and ffn.out",
                 .confidence = 0.95,
                 .why = fmt::format("The matrices that write to the stream have {:.3g} of the others' "
                                    "deviation, where the init asks for {:.3g}.",
                                    *ratio, want),
                 .clues = {{"writer_std_ratio", *ratio, want, 0}}};
}

}  // namespace residual_scale_wrong_cause
}  // namespace

namespace entries::doctor {
extern constexpr DoctorEntry residual_scale_wrong = {
    .name = "residual_scale_wrong",
    .what = "scaled init is missing, applied twice, or has another exponent",
    .symptom = "A little worse than it should be; more so with depth.",
    .test =
        "The deviation of the matrices that write to the stream over that of the others, at the start, "
        "against what the config asks for: 1/sqrt(2 n_layer) with scaled init, 1 without. Off by more than a "
        "fifth (five standard errors are below 5 % in a block of d_model 32).",
    .alike = "residual_growth multiplies the writes in the forward pass: the matrices are as they should be.",
    .mend =
        "Scale by the role of a parameter, once: std / sqrt(2 n_layer) for the matrices that write to the "
        "stream.",
    .needs = "writer_std_ratio",
    .shows = "slightly_worse 1, worse_with_depth 3",
    .explains = "",
    .look = residual_scale_wrong_cause::look,
};
}  // namespace entries::doctor

}  // namespace plumb
