// No normalisation: y = x. Adds no node and no parameter.
#include "plumb/norm/norm.h"

namespace plumb {
namespace {

template <class R>
class NoNorm final : public Norm<R> {
 public:
  explicit NoNorm(const DecoderSpec&) {}
  Value build(Builder<R>&, Value x, const std::string&, int) const override { return x; }
};

}  // namespace

namespace entries::norm {
extern constexpr NormEntry none = norm_entry<NoNorm>({
    .name = "none",
    .purpose = "To see what a norm is for, and for rules that take its place (rezero, fixup, nf).",
    .formula = "y = x",
    .paper = "",
    .pitfalls = "Without a norm the stream's scale is the residual rule's and the init's to keep: rezero, nf "
                "or fixup.",
});
}  // namespace entries::norm

}  // namespace plumb
