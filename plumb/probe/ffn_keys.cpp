// The feed-forward layer as a memory: its slots' keys are the rows of the matrix before the activation (of
// the gate, where there is one). Mean and largest cosine of two of them, and how many pairs are nearly one.
// Of random keys the mean is 0 with a std of 1 / sqrt(d_model) of each cosine. A mixture's keys are compared
// within each expert. Geva et al. 2020, arXiv 2012.14913, section 2.
#include <cmath>

#include "plumb/probe/probe.h"

namespace plumb {
namespace {

constexpr double near_duplicate = 0.95;  // two keys that fire together on nearly everything

struct Keys {
  KeyPairs pairs;
  double sum = 0;  // of cosines
  std::int64_t count = 0;
};

constexpr Number<Keys> key_numbers[] = {
    {"ffn_key_cosine_mean", [](const Keys& k) { return k.sum / static_cast<double>(k.count); }},
    {"ffn_key_cosine_max", [](const Keys& k) { return k.pairs.largest; }},
    {"ffn_near_duplicates",
     [](const Keys& k) {
       return std::isnan(k.sum) ? std::numeric_limits<double>::quiet_NaN()
                                : static_cast<double>(k.pairs.above);
     }},
};

class FfnKeys final : public ParamProbe<Keys> {
 public:
  explicit FfnKeys(const DecoderSpec& s)
      : ParamProbe(s), scratch_(static_cast<std::size_t>(std::max(s.d_ff, s.d_model))) {}
  void updated(const ParamLayout& layout, std::span<const float> before, std::span<const float> after,
               std::span<const float> grads) override {
    gated_ =
        std::ranges::any_of(layout.params, [](const ParamInfo& p) { return is_matrix(p, Role::ffn_gate); });
    ParamProbe::updated(layout, before, after, grads);
  }
  void write(StepRow& row) const override {
    for (const auto& n : key_numbers) write_number(row, n, parts_, true);
  }

 private:
  static bool is_matrix(const ParamInfo& p, Role role) {
    return p.spec.role == role && p.spec.shape.dims.size() == 2;
  }
  void look(const ParamInfo& p, std::span<const float> before, std::span<const float>, std::span<const float>,
            Keys& keys) override {
    if (!is_matrix(p, gated_ ? Role::ffn_gate : Role::ffn_in)) return;
    const View<const float> rows{before.data(), p.spec.shape.rows(), p.spec.shape.cols(),
                                 p.spec.shape.cols()};
    if (rows.rows < 2) return;
    const KeyPairs pairs = key_pairs(rows, near_duplicate, scratch_);
    keys.sum += key_cosine_mean(rows, scratch_) * static_cast<double>(pairs.count);
    keys.pairs.merge(pairs);
    keys.count += pairs.count;
  }
  bool gated_ = false;
  std::vector<double> scratch_;
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry ffn_keys =
    probe_entry<FfnKeys>("ffn_keys", "cosines of the rows of a block's matrix before the activation", true);
}  // namespace entries::probe

}  // namespace plumb
