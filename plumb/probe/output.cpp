// The predictions as a whole: mean entropy in nats, and mean log-sum-exp of the logits, which nothing in the
// cross-entropy holds down (Chowdhery et al. 2022, arXiv 2204.02311, section 5).
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct Said : Predictions {
  std::int64_t count = 0;
  void merge(const Said& o) {
    Predictions::merge(o);
    count += o.count;
  }
};

struct Output {
  static constexpr std::string_view point = "logits";
  static constexpr Dir dir = Dir::forward;
  static Said measure(View<const float> logits, std::int64_t) { return {predictions(logits), logits.rows}; }
  static constexpr Number<Said> numbers[] = {
      {"logit_entropy", [](const Said& s) { return s.entropy.value(); }},
      {"log_z", [](const Said& s) { return s.log_z.value(); }},
  };
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry output =
    probe_entry<PointProbe<Output>>("output", "entropy of the predictions, and log-sum-exp of the logits");
}  // namespace entries::probe

}  // namespace plumb
