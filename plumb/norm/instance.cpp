// InstanceNorm: every channel of every sequence by itself, over its positions; GroupNorm with a group a
// channel. Ulyanov, Vedaldi, Lempitsky 2016, arXiv 1607.08022. Without gain and bias unless norm_affine says
// so.
//
// Shapes: x, y (B, T, C); gamma, beta (C); kept: mean, 1/std (B, 1, C). Gradients: kernel/group_norm.h.
#include "plumb/norm/norm.h"

namespace plumb {
namespace {

template <class R>
class Instance final : public Norm<R> {
 public:
  explicit Instance(const DecoderSpec& s) : eps_(s.norm_eps), affine_(s) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    return group_norm(b, x, b.shape(x).cols(), eps_, affine_, name, layer);
  }

 private:
  double eps_;
  Affine affine_;
};

}  // namespace

namespace entries::norm {
extern constexpr NormEntry instance = norm_entry<Instance>({
    .name = "instance",
    .purpose = "Each channel of each sample at unit scale by itself: removes contrast and style from images.",
    .formula = "y = (x - mean x) / sqrt(var x + eps), over the positions of each feature of each sequence",
    .paper = "Ulyanov, Vedaldi, Lempitsky 2016, arXiv 1607.08022",
    .pitfalls = "Pools over positions: in a causal model a position sees the future through the statistics, "
                "in evaluation "
                "too, so losses flatter. What is constant over a sequence is removed. It cannot decode a "
                "position at a time.",
    .fields = "model.norm_eps, model.norm_affine, model.norm_bias, model.norm_gain",
});
}  // namespace entries::norm

}  // namespace plumb
