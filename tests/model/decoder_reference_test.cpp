// Whole small decoders against PyTorch: loss, logits, hidden states and every parameter's gradient.
#include <gtest/gtest.h>

#include <map>

#include "plumb/model/decoder.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

using test::close;
using test::reference;
using test::tolerance;
using test::What;

// Our names beside the reference's.
std::map<std::string, std::string> names(bool final_norm, bool block_norms, bool branch_norms) {
  std::map<std::string, std::string> m = {{"embed.weight", "tok_emb"}, {"pos.weight", "pos_emb"}};
  for (const std::string i : {"0", "1"}) {
    const std::string ours = "blocks." + i, theirs = "l" + i + ".";
    for (const auto& [sub, nth] : {std::pair{".attn", "1"}, {".ffn", "2"}})
      for (const auto& [part, letter] : {std::pair{"gamma", "g"}, {"beta", "b"}}) {
        if (block_norms) m[ours + sub + ".norm." + part] = theirs + "ln" + nth + "." + letter;
        if (branch_norms) m[ours + sub + ".norm_out." + part] = theirs + "pn" + nth + "." + letter;
      }
    for (const std::string w : {"q", "k", "v", "o"}) m[ours + ".attn." + w + ".weight"] = theirs + "w" + w;
    m[ours + ".ffn.in.weight"] = theirs + "w1";
    m[ours + ".ffn.in.bias"] = theirs + "b1";
    m[ours + ".ffn.out.weight"] = theirs + "w2";
    m[ours + ".ffn.out.bias"] = theirs + "b2";
  }
  if (final_norm) m["final_norm.gamma"] = "lnf.g", m["final_norm.beta"] = "lnf.b";
  return m;
}

// Copies whole values out of the points it is asked for; one shard, so the view is all of it.
template <class R>
struct Keep final : Hook<R> {
  std::map<std::string, std::vector<double>, std::less<>> seen = {
      {"embed", {}}, {"blocks.0.out", {}}, {"blocks.1.out", {}}, {"logits", {}}};
  bool wants(std::string_view p, Dir d) const override { return d == Dir::forward && seen.contains(p); }
  void at(std::string_view p, Dir, View<R> v, int) override {
    auto& to = seen.find(p)->second;
    to.clear();
    for (std::int64_t i = 0; i < v.rows; ++i) to.insert(to.end(), v.row(i), v.row(i) + v.cols);
  }
};

template <class R>
void compare(const std::string& mode, const DecoderSpec& s, const Components& c = {}) {
  const test::Entry& e = reference("tiny_decoder_" + mode);
  const test::Entry& start = reference("tiny_decoder_params");

  ThreadPool pool(1);
  ParamStore<R> store(decoder_layout<R>(s, c), 0);
  const auto map = names(s.final_norm, s.placement != "bare", s.placement == "sandwich");
  const bool gains =
      s.residual == "layer_scale";  // the reference has constants there, as these are at the start
  ASSERT_EQ(store.layout().params.size(), map.size() + (gains ? 4 : 0));
  for (const ParamInfo& p : store.layout().params) {
    if (p.spec.role == Role::residual_gain) continue;
    const test::Tensor& t = start.in(map.at(p.spec.name));
    ASSERT_EQ(static_cast<std::int64_t>(t.data.size()), p.size());
    std::ranges::transform(t.data, store.view(p).data, [](double x) { return static_cast<R>(x); });
  }
  Keep<R> keep;
  Hook<R>* hooks[] = {&keep};
  Plan<R> plan = make_plan<R>(s, c, store, {.batch = 2, .block = 6}, pool, hooks);
  const LossResult loss = plan.loss_and_grad(e.in("ids").ids(), e.in("targets").ids());

  const auto tol = tolerance<R>(e, What::value);
  EXPECT_TRUE(close({&loss.loss, 1}, e.out("loss"), tol));
  EXPECT_TRUE(close(keep.seen["embed"], e.out("hidden0"), tol));
  EXPECT_TRUE(close(keep.seen["blocks.0.out"], e.out("hidden1"), tol));
  EXPECT_TRUE(close(keep.seen["blocks.1.out"], e.out("hidden2"), tol));
  EXPECT_TRUE(close(keep.seen["logits"], e.out("logits"), tol));
  if (!gains) {
    const double norm = plan.grad_norm();
    EXPECT_TRUE(close({&norm, 1}, e.out("grad_norm"), tolerance<R>(e, What::gradient)));
  }
  for (const auto& [ours, theirs] : map) {
    const View<R> g = plan.grad(ours);
    EXPECT_TRUE(close(std::vector<double>(g.data, g.data + g.size()), e.grad(theirs),
                      tolerance<R>(e, What::gradient)));
  }
}

DecoderSpec tiny(const std::string& placement, bool final_norm) {
  DecoderSpec s;
  s.n_layer = 2, s.d_model = 8, s.n_head = s.n_kv_head = 2, s.d_head = 4, s.d_ff = 16, s.block_size = 6,
  s.vocab_size = 11;
  s.placement = placement, s.final_norm = final_norm;
  return s;
}

TEST(DecoderReference, PreInDouble) { compare<double>("pre", tiny("pre", true)); }
TEST(DecoderReference, PreInFloat) { compare<float>("pre", tiny("pre", true)); }
TEST(DecoderReference, PostInDouble) { compare<double>("post", tiny("post", false)); }
TEST(DecoderReference, PostInFloat) { compare<float>("post", tiny("post", false)); }
TEST(DecoderReference, SandwichInDouble) { compare<double>("sandwich", tiny("sandwich", true)); }
TEST(DecoderReference, SandwichInFloat) { compare<float>("sandwich", tiny("sandwich", true)); }

DecoderSpec tiny_deepnorm() {
  DecoderSpec s = tiny("post", false);
  s.residual = "deepnorm";
  return s;
}
TEST(DecoderReference, DeepNormInDouble) { compare<double>("deepnorm", tiny_deepnorm()); }
TEST(DecoderReference, DeepNormInFloat) { compare<float>("deepnorm", tiny_deepnorm()); }

// Blocks without norms, a norm before the head: a placement of the test's own. LayerScale's gains are 0.1 at
// this depth.
template <class R>
void compare_layer_scale() {
  Components c;
  c.placement.push_back({.name = "bare", .formula = "y = x + f(x)", .paper = ""});
  DecoderSpec s = tiny("bare", true);
  s.residual = "layer_scale";
  compare<R>("nonorm_layerscale", s, c);
}
TEST(DecoderReference, LayerScaleWithoutNormsInDouble) { compare_layer_scale<double>(); }
TEST(DecoderReference, LayerScaleWithoutNormsInFloat) { compare_layer_scale<float>(); }

}  // namespace
}  // namespace plumb
