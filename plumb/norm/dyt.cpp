// Dynamic Tanh: y = gamma tanh(alpha x) + beta, alpha one learned scalar. Zhu, Chen, He, LeCun, Liu 2025,
// arXiv 2503.10622, eq. 1.
//
// No statistics. For language models: alpha larger before attention than elsewhere (`norm_alpha_attention`;
// 0.8 and 0.2 at 7B, 0.2 and 0.05 at 70B), no beta, and a learned factor sqrt(d) on the embedding
// (`embedding_scale`); section 7 and appendix A. Shapes: x, y (B, T, C); gamma, beta (C); alpha (1).
// Gradients: kernel/squash.h.
#include "plumb/norm/norm.h"

namespace plumb {
namespace {

template <class R>
class DyT final : public Norm<R> {
 public:
  explicit DyT(const DecoderSpec& s) : s_(s) {}
  Value build(Builder<R>& b, Value x, const std::string& name, int layer) const override {
    return squashed(b, x, Squash::tanh, false, s_, name, layer);
  }

 private:
  DecoderSpec s_;
};

}  // namespace

namespace entries::norm {
extern constexpr NormEntry dyt = norm_entry<DyT>({
    .name = "dyt",
    .purpose = "Outliers squashed without statistics: nothing is summed over features, nothing couples them.",
    .formula = "y = tanh(alpha x) * gamma + beta, alpha one learned scalar, 0.5 at the start",
    .paper = "Zhu et al. 2025, arXiv 2503.10622",
    .pitfalls = "It normalises nothing: a stream of std 0.02 leaves at std 0.01, one of std 100 leaves as "
                "its signs. Language "
                "models want another alpha before attention and a factor on the embedding.",
    .fields =
        "model.norm_affine, model.norm_bias, model.norm_gain, model.norm_alpha, model.norm_alpha_attention",
});
}  // namespace entries::norm

}  // namespace plumb
