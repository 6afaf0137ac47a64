// GroupNorm over positions and the channels of a group, each sequence by itself. Wu & He 2018, arXiv
// 1803.08494.
//
// y = (x - mean) / sqrt(var + eps) gamma + beta, statistics of T · C / groups values, gain and bias a
// channel. One group is not LayerNorm: it pools over the positions too. Gradients: kernel/group_norm.h.
// Shapes: x, y (B, T, C); gamma, beta (C); kept: mean, 1/std (B, 1, groups).
#include "plumb/norm/norm.h"

namespace plumb {
namespace {

template <class R>
class Group final : public Norm<R> {
 public:
  explicit Group(const DecoderSpec& s) : groups_(s.norm_groups), eps_(s.norm_eps), affine_(s) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    return group_norm(b, x, groups_, eps_, affine_, name, layer);
  }

 private:
  std::int64_t groups_;
  double eps_;
  Affine affine_;
};

std::string group_refuses(const DecoderSpec& s) {
  if (s.d_model % s.norm_groups != 0)
    return fmt::format("{} channels do not divide into {} groups; change model.norm_groups", s.d_model,
                       s.norm_groups);
  return {};
}

}  // namespace

namespace entries::norm {
extern constexpr NormEntry group = norm_entry<Group>({
    .name = "group",
    .purpose = "Batch norm's place taken by groups of channels of one sample: small batches of images.",
    .formula = "y = (x - mean x) / sqrt(var x + eps) * gamma + beta, over the positions and the channels of "
               "a group of each "
               "sequence",
    .paper = "Wu & He 2018, arXiv 1803.08494",
    .pitfalls = "Pools over positions: in a causal model a position sees the future through the statistics, "
                "in evaluation "
                "too, so losses flatter. One group is not LayerNorm. It cannot decode a position at a time.",
    .fields = "model.norm_eps, model.norm_affine, model.norm_bias, model.norm_gain, model.norm_groups",
    .refuses = group_refuses,
});
}  // namespace entries::norm

}  // namespace plumb
