// A LayerNorm without parameters stands on the stream after each addition, as Post-LN has it: the identity
// path from the loss to the first block is gone.
#include <algorithm>
#include <cmath>
#include "plumb/fault/fault.h"

#include "plumb/norm/norm.h"

namespace plumb {
namespace {

template <class R>
class NormOnIdentityPath final : public GraphFault<R> {
 public:
  NormOnIdentityPath(const DecoderSpec& s, double strength)
      : last_(std::max<std::int64_t>(1, std::llround(strength * static_cast<double>(s.n_layer)))) {
    DecoderSpec plain = s;
    plain.norm = "layer", plain.norm_affine = false;
    norm_ = choose(norm_table(), "norm", plain.norm, plain).template make<R>(plain);
  }
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    const bool after_add = is_block_point(point, ".mid") || is_block_point(point, ".out");
    if (!after_add || block_number(point) >= last_) return v;
    return norm_->build(b, v, std::string(point) + ".fault", -1);
  }

 private:
  std::int64_t last_;
  std::unique_ptr<Norm<R>> norm_;
};

std::string norm_on_identity_path_refuses(const Config& c) {
  if (c.model.placement == "post") return "model.placement = \"post\" has a norm there already";
  if (c.model.residual == "hyper_connections") return "the stream has several lanes";
  return "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry norm_on_identity_path = graph_fault<NormOnIdentityPath>({
    .name = "norm_on_identity_path",
    .what = "a norm stands on the residual path after each addition, as in Post-LN",
    .strength = "the share of the blocks that have it, from the first",
    .refuses = norm_on_identity_path_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
