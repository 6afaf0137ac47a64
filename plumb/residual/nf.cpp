// Normaliser-free blocks. Brock, De, Smith 2021, arXiv 2101.08692, section 3; the skip gain: De & Smith 2020,
// arXiv 2002.10444.
//
//   y = x + alpha g f(beta x),   beta = 1 / sqrt(V),   V ← V + alpha^2
//
// V starts at 1: the embedded stream is rescaled to it. V is the stream's variance as expected at init with f
// variance-preserving (scaled_ws); it is known while building, so beta is a constant of the graph. Shapes: x,
// y (B, T, C); g (1), 0 at the start. Gradients: sinks as residual.cpp's ops say.
#include <cmath>

#include "plumb/residual/residual.h"

namespace plumb {
namespace {

constexpr double alpha = 0.2;

template <class R>
class Nf final : public Residual<R> {
 public:
  explicit Nf(const DecoderSpec&) {}

  Value open(Builder<R>& b, Value embedded) override {
    const double v = b.expected_var(embedded);
    if (!(v > 0))
      fail(
          "[nf] the embedding's variance at the start is {}; NF blocks must know it to rescale the stream to "
          "variance 1",
          v);
    return to_unit(b, embedded, "embed.unit");
  }

  typename Residual<R>::In enter(Builder<R>& b, Value stream, const Site& s) override {
    return {stream, to_unit(b, stream, s.name() + ".beta")};
  }

  Value leave(Builder<R>& b, Value shortcut, Value branch, const Site& s) override {
    shortcut = b.point(s.name() + ".skip", shortcut);
    branch = b.point(s.name() + ".write", branch);
    const Value gain = b.param(
        {.name = s.name() + ".skip_gain", .role = Role::residual_gain, .shape = {Dim{}}, .layer = s.layer},
        {ParamRule::Kind::constant, 0});
    const Value y = gated_sum(b, shortcut, alpha, gain, branch, s.name() + ".add");
    b.expected_var(y, b.expected_var(shortcut) + alpha * alpha);
    return y;
  }

 private:
  static Value to_unit(Builder<R>& b, Value x, const std::string& name) {
    const Value y = scaled(b, 1 / std::sqrt(b.expected_var(x)), x, name);
    b.expected_var(y, 1);
    return y;
  }
};

std::string nf_refuses(const DecoderSpec& s) {
  if (s.norm != "none") return "NF blocks replace the norms; set norm = 'none'";
  if (s.weight_param != "scaled_ws")
    return "NF blocks rely on branches that keep the variance; set weight_param = 'scaled_ws'";
  return {};
}

}  // namespace

namespace entries::residual {
extern constexpr ResidualEntry nf = residual_entry<Nf>({
    .name = "nf",
    .purpose = "Norm-free networks: branches see a stream whose expected variance is divided out.",
    .formula =
        "y = x + 0.2 g f(x / sqrt(V)), V the stream's expected variance, + 0.04 a write; g starts at 0",
    .paper = "Brock, De, Smith 2021, arXiv 2101.08692",
    .pitfalls = "Without the activation constants and scaled weight standardisation V is not the stream's "
                "variance. The "
                "networks of the paper also clip gradients adaptively.",
    .refuses = nf_refuses,
});
}  // namespace entries::residual

}  // namespace plumb
