// The config says that head and embedding are one matrix; the model has two. Or it has one, and that is drawn as an embedding by
// itself may be, with deviation 1: as a head it then makes logits of deviation sqrt(d_model).
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

constexpr double at_unit_scale = 2;  // the strength that is the second of the two

template <class R>
class TiedEmbeddingBroken final : public GraphFault<R> {
 public:
  TiedEmbeddingBroken(const DecoderSpec&, double strength) : unit_(strength == at_unit_scale) {}
  void rule(const ParamSpec& p, ParamRule& rule) const override {
    if (unit_ && p.role == Role::token_embed && rule.variance() > 0)
      rule.kind = ParamRule::Kind::normal, rule.scale = 1;
  }

 private:
  bool unit_;
};

std::string tied_embedding_broken_refuses(const Config& c) {
  if (!c.model.tied_embeddings.value_or(true))
    return "the config does not tie them; set model.tied_embeddings = true";
  return c.fault.strength == 1 || c.fault.strength == at_unit_scale
             ? ""
             : "its strength is 1 (two matrices) or 2 (one, at the embedding's scale)";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry tied_embedding_broken = [] {
  FaultEntry e = graph_fault<TiedEmbeddingBroken>({
      .name = "tied_embedding_broken",
      .what = "head and embedding are two matrices although the config ties them; or one, at the embedding's "
              "scale",
      .strength = "1: two matrices; 2: one, drawn with a deviation of 1",
      .low = 1,
      .high = 2,
      .refuses = tied_embedding_broken_refuses,
  });
  e.spec = [](DecoderSpec& s, double strength) {
    if (strength != at_unit_scale) s.tied_embeddings = false;
  };
  return e;
}();
}  // namespace entries::fault

}  // namespace plumb
