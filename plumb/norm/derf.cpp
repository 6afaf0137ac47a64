// Derf: y = gamma erf(alpha x + s) + beta, alpha and s learned scalars. arXiv 2512.10938.
//
// No statistics. alpha starts at `norm_alpha` (0.5), s at 0.
// Shapes: x, y (B, T, C); gamma, beta (C); alpha, s (1), `<name>.alpha`, `<name>.shift`. Gradients:
// kernel/squash.h.
#include "plumb/norm/norm.h"

namespace plumb {
namespace {

template <class R>
class Derf final : public Norm<R> {
 public:
  explicit Derf(const DecoderSpec& s) : s_(s) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    return squashed(b, x, Squash::erf, true, s_, name, layer);
  }

 private:
  DecoderSpec s_;
};

}  // namespace

namespace entries::norm {
extern constexpr NormEntry derf = norm_entry<Derf>({
    .name = "derf",
    .purpose = "Outliers squashed without statistics, as dyt, by an error function with a learned shift.",
    .formula = "y = erf(alpha x + s) * gamma + beta, alpha and s learned scalars, 0.5 and 0 at the start",
    .paper = "arXiv 2512.10938",
    .pitfalls = "It normalises nothing: a small stream leaves small, a large one as its signs.",
    .fields =
        "model.norm_affine, model.norm_bias, model.norm_gain, model.norm_alpha, model.norm_alpha_attention",
});
}  // namespace entries::norm

}  // namespace plumb
