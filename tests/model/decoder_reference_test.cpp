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
std::map<std::string, std::string> names(bool final_norm) {
  std::map<std::string, std::string> m = {{"embed.weight", "tok_emb"}, {"pos.weight", "pos_emb"}};
  for (const std::string i : {"0", "1"}) {
    const std::string ours = "blocks." + i, theirs = "l" + i + ".";
    m[ours + ".attn.norm.gamma"] = theirs + "ln1.g";
    m[ours + ".attn.norm.beta"] = theirs + "ln1.b";
    m[ours + ".ffn.norm.gamma"] = theirs + "ln2.g";
    m[ours + ".ffn.norm.beta"] = theirs + "ln2.b";
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
void compare(const std::string& placement, bool final_norm) {
  const test::Entry& e = reference("tiny_decoder_" + placement);
  const test::Entry& start = reference("tiny_decoder_params");
  DecoderSpec s;
  s.n_layer = 2, s.d_model = 8, s.n_head = 2, s.d_head = 4, s.d_ff = 16, s.block_size = 6, s.vocab_size = 11;
  s.placement = placement, s.final_norm = final_norm;

  ThreadPool pool(1);
  ParamStore<R> store(decoder_layout<R>(s, Components{}), 0);
  const auto map = names(final_norm);
  ASSERT_EQ(store.layout().params.size(), map.size());
  for (const ParamInfo& p : store.layout().params) {
    const test::Tensor& t = start.in(map.at(p.spec.name));
    ASSERT_EQ(static_cast<std::int64_t>(t.data.size()), p.size());
    std::ranges::transform(t.data, store.view(p).data, [](double x) { return static_cast<R>(x); });
  }
  Keep<R> keep;
  Hook<R>* hooks[] = {&keep};
  Plan<R> plan = make_plan<R>(s, Components{}, store, {.batch = 2, .block = 6}, pool, hooks);
  const LossResult loss = plan.loss_and_grad(e.in("ids").ids(), e.in("targets").ids());

  const auto tol = tolerance<R>(e, What::value);
  EXPECT_TRUE(close({&loss.loss, 1}, e.out("loss"), tol));
  EXPECT_TRUE(close(keep.seen["embed"], e.out("hidden0"), tol));
  EXPECT_TRUE(close(keep.seen["blocks.0.out"], e.out("hidden1"), tol));
  EXPECT_TRUE(close(keep.seen["blocks.1.out"], e.out("hidden2"), tol));
  EXPECT_TRUE(close(keep.seen["logits"], e.out("logits"), tol));
  const double norm = plan.grad_norm();
  EXPECT_TRUE(close({&norm, 1}, e.out("grad_norm"), tolerance<R>(e, What::gradient)));
  for (const auto& [ours, theirs] : map) {
    const View<R> g = plan.grad(ours);
    EXPECT_TRUE(close(std::vector<double>(g.data, g.data + g.size()), e.grad(theirs), tolerance<R>(e, What::gradient)));
  }
}

TEST(DecoderReference, PreInDouble) { compare<double>("pre", true); }
TEST(DecoderReference, PreInFloat) { compare<float>("pre", true); }
TEST(DecoderReference, PostInDouble) { compare<double>("post", false); }
TEST(DecoderReference, PostInFloat) { compare<float>("post", false); }

}  // namespace
}  // namespace plumb
