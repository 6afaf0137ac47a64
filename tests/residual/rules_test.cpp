// What the residual rules promise at the start: which function the model is, and how wide the stream.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "plumb/base/rng.h"
#include "plumb/kernel/measure.h"
#include "plumb/model/decoder.h"
#include "tests/support/error_text.h"
#include "tests/support/reference.h"

namespace plumb {
namespace {

constexpr std::int64_t batch = 2, block = 8;

DecoderSpec small_model() {
  DecoderSpec s;
  s.n_layer = 3, s.d_model = 16, s.n_head = 2, s.n_kv_head = 2, s.d_head = 8, s.d_ff = 24,
  s.block_size = block;
  s.vocab_size = 13;
  s.norm_eps = 1e-16;  // so that a norm undoes a factor
  return s;
}

// Copies of the tensors at points.
struct Recorder final : Hook<double> {
  std::map<std::string, std::vector<double>> at_point;
  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::forward && !point.ends_with(".scores") && !point.ends_with(".weights");
  }
  void at(std::string_view point, Dir, View<double> v, int) override {
    auto& to = at_point[std::string(point)];
    to.clear();
    for (std::int64_t i = 0; i < v.rows; ++i) to.insert(to.end(), v.row(i), v.row(i) + v.cols);
  }
  const std::vector<double>& operator[](const std::string& point) const { return at_point.at(point); }
};

struct Model {
  explicit Model(const DecoderSpec& spec)
      : s(spec),
        store(decoder_layout<double>(s, c), 5),
        plan(make_plan<double>(s, c, store, {.mode = Mode::eval, .batch = batch, .block = block}, pool,
                               hooks)) {
    const Stream draw = stream(1, "test");
    for (std::size_t i = 0; i < batch * block; ++i)
      x.push_back(static_cast<std::int32_t>(draw.below(13, 0, 0, i)));
  }
  double loss() { return plan.loss(x, x).loss; }

  DecoderSpec s;
  Components c;
  ParamStore<double> store;
  ThreadPool pool{1};
  Recorder points;
  Hook<double>* hooks[1] = {&points};
  Plan<double> plan;
  std::vector<std::int32_t> x;
};

// Static hyper-connections open as copies, write to every lane alike and close as the lanes' sum: n times the
// plain stream, which the final norm undoes.
TEST(HyperConnections, AtTheStartTheModelIsThePlainOne) {
  Model plain(small_model());
  for (const std::int64_t lanes : {2, 3, 4}) {
    DecoderSpec s = small_model();
    s.residual = "hyper_connections";
    s.residual_lanes = lanes;
    Model hc(s);
    EXPECT_NEAR(hc.loss(), plain.loss(), 1e-9) << lanes << " lanes";
    const auto &want = plain.points["blocks.2.out"], &got = hc.points["blocks.2.out"];
    ASSERT_EQ(got.size(), want.size() * static_cast<std::size_t>(lanes));
    const std::size_t c = 16, n = static_cast<std::size_t>(lanes);
    for (std::size_t i = 0; i < want.size(); ++i)
      for (std::size_t lane = 0; lane < n; ++lane)
        ASSERT_NEAR(got[(i / c * n + lane) * c + i % c], want[i], 1e-12);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(hc.points["final_norm"][i], plain.points["final_norm"][i], 1e-9);
  }
}

TEST(HyperConnections, ScalarsAreGainsWithoutDecay) {
  DecoderSpec s = small_model();
  s.residual = "hyper_connections";
  s.residual_lanes = 3;
  const Components c;
  const ParamLayout layout = decoder_layout<double>(s, c);
  int found = 0;
  for (const ParamInfo& p : layout.params) {
    if (p.spec.role != Role::residual_gain) continue;
    ++found;
    EXPECT_EQ(p.rule.decay, 0) << p.spec.name;
  }
  EXPECT_EQ(found, 3 * 6);
  EXPECT_EQ(layout.find("blocks.1.ffn.hc.mix").size(), 9);
  EXPECT_EQ(layout.find("blocks.1.ffn.hc.read").size(), 3);
}

TEST(ReZero, AtTheStartTheStreamIsTheEmbedding) {
  DecoderSpec s = small_model();
  s.residual = "rezero";
  s.norm = "none";
  s.final_norm = false;
  Model m(s);
  m.loss();
  EXPECT_EQ(m.points["blocks.2.out"], m.points["embed"]);
}

TEST(ReZero, OneScalarALayer) {
  DecoderSpec s = small_model();
  s.residual = "rezero";
  const Components c;
  int found = 0;
  for (const ParamInfo& p : decoder_layout<double>(s, c).params)
    found += p.spec.role == Role::residual_gain ? 1 : 0;
  EXPECT_EQ(found, 3);
}

DecoderSpec nf_model() {
  DecoderSpec s = small_model();
  s.residual = "nf";
  s.norm = "none";
  s.weight_param = "scaled_ws";
  return s;
}

TEST(NfBlocks, ExpectedVarianceGrowsByAlphaSquaredAWrite) {
  const Components c;
  const auto g = build_decoder<double>(nf_model(), c, Mode::eval, block);
  const auto& want = test::reference("nfnet_beta").out("beta").data;
  std::map<std::string, double> variance;
  for (const ValueInfo& v : g.values)
    for (const std::string& p : v.points) variance[p] = v.expected_var;
  int write = 0;
  for (int layer = 0; layer < 3; ++layer)
    for (const char* sub : {".attn", ".ffn"}) {
      const double v = variance.at("blocks." + std::to_string(layer) + sub + ".skip");
      EXPECT_NEAR(v, 1 + 0.04 * write, 1e-12);
      if (write < 4) {
        EXPECT_NEAR(1 / std::sqrt(v), want[static_cast<std::size_t>(write)], 1e-12);
      }
      ++write;
    }
}

TEST(NfBlocks, BranchesReadUnitVariance) {
  DecoderSpec s = nf_model();
  s.d_model = 64, s.d_head = 32, s.vocab_size = 400, s.position = "none";
  Model m(s);
  m.loss();
  for (int layer = 0; layer < 3; ++layer) {
    const auto& x = m.points["blocks." + std::to_string(layer) + ".attn.norm"];
    const auto n = static_cast<std::int64_t>(x.size());
    // The stream is the rescaled embedding at the start (the gains are 0): its variance is 1, divided by what
    // is expected.
    EXPECT_NEAR(moments(View<const double>{x.data(), 1, n, n}).variance() * (1 + 0.08 * layer), 1, 0.15);
  }
}

TEST(NfBlocks, UnknownVarianceIsAnError) {
  DecoderSpec s = nf_model();
  s.init.std = 0;
  const Components c;
  const std::string text = test::error_text([&] { build_decoder<double>(s, c, Mode::eval, block); });
  EXPECT_NE(text.find("[nf] the embedding's variance at the start is 0"), std::string::npos) << text;
}

// Every write is what the branch gave, by 1/sqrt(2 · 3 layers).
TEST(DepthScale, WritesShrinkByTheRootOfAllWrites) {
  DecoderSpec s = small_model();
  s.residual = "depth_scale", s.init.residual_scale = false;
  Model m(s);
  m.loss();
  for (const char* sub : {"attn", "ffn"}) {
    const std::string at = std::string("blocks.1.") + sub;
    const auto &write = m.points[at + ".write"], &out = m.points[at + ".out"];
    ASSERT_EQ(write.size(), out.size());
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(write[i], out[i] / std::sqrt(6.0), 1e-15);
  }
}

TEST(LayerScale, StartsByDepth) {
  const Components c;
  for (const auto& [depth, gain] :
       {std::pair{1, 0.1}, {18, 0.1}, {19, 1e-5}, {24, 1e-5}, {25, 1e-6}, {36, 1e-6}}) {
    DecoderSpec s = small_model();
    s.residual = "layer_scale", s.n_layer = depth;
    const ParamLayout layout = decoder_layout<double>(s, c);
    EXPECT_EQ(layout.find("blocks.0.attn.lambda").rule.scale, gain) << depth;
    EXPECT_EQ(layout.find("blocks.0.ffn.lambda").size(), 16);
  }
  DecoderSpec s = small_model();
  s.residual = "layer_scale", s.layer_scale_init = 0.3;
  EXPECT_EQ(decoder_layout<double>(s, c).find("blocks.2.ffn.lambda").rule.scale, 0.3);
}

TEST(SkipInit, OneScalarABranchAndTheStreamIsTheEmbeddingAtTheStart) {
  DecoderSpec s = small_model();
  s.residual = "skip_init";
  Model m(s);
  m.loss();
  EXPECT_EQ(m.points["blocks.2.out"], m.points["embed"]);
  int found = 0;
  for (const ParamInfo& p : m.store.layout().params) found += p.spec.role == Role::residual_gain ? 1 : 0;
  EXPECT_EQ(found, 6);
}

// alpha and beta of the paper's table, computed by another implementation; beta multiplies Xavier's std on v,
// attention output and the feed-forward matrices.
TEST(DeepNorm, ConstantsAndWhatTheyMultiply) {
  const auto& e = test::reference("deepnorm");
  const Components c;
  for (const int n : {1, 6, 12, 24, 48}) {
    const std::string key = "single.N" + std::to_string(n);
    DecoderSpec s = small_model();
    s.n_layer = n, s.residual = "deepnorm", s.placement = "post", s.final_norm = false,
    s.init.scheme = "xavier";
    const double beta = e.out(key + ".beta").scalar();
    for (const ParamInfo& p : decoder_layout<double>(s, c).params) {
      const double xavier = std::sqrt(2.0 / static_cast<double>(p.spec.fan_in + p.spec.fan_out));
      switch (p.spec.role) {
        case Role::q:
        case Role::k:
          EXPECT_NEAR(p.rule.scale, xavier, 1e-12);
          break;
        case Role::v:
        case Role::attn_out:
        case Role::ffn_in:
        case Role::ffn_out:
          EXPECT_NEAR(p.rule.scale, beta * xavier, 1e-12);
          break;
        default:
          break;
      }
    }
    if (n > 6) continue;
    Model m(s);
    m.loss();
    const auto &skip = m.points["blocks.0.attn.skip"], &write = m.points["blocks.0.attn.write"],
               &sum = m.points["blocks.0.attn.norm_in"];
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_NEAR(sum[i], e.out(key + ".alpha").scalar() * skip[i] + write[i], 1e-12);
  }
}

TEST(Refusals, AreSentences) {
  const Components c;
  auto why = [&](auto edit) {
    DecoderSpec s = small_model();
    edit(s);
    return test::error_text([&] { check_spec(s, c); });
  };
  EXPECT_EQ(why([](DecoderSpec& s) { s.residual = "nf"; }),
            "residual = 'nf': NF blocks replace the norms; set norm = 'none'");
  EXPECT_EQ(
      why([](DecoderSpec& s) { s.residual = "nf", s.norm = "none"; }),
      "residual = 'nf': NF blocks rely on branches that keep the variance; set weight_param = 'scaled_ws'");
  EXPECT_EQ(why([](DecoderSpec& s) { s.residual = "hyper_connections", s.placement = "post"; }),
            "residual = 'hyper_connections': a norm after the addition would normalise every lane; use "
            "placement = 'pre'");
  EXPECT_EQ(why([](DecoderSpec& s) { s.residual = "hyper_connections", s.residual_lanes = 1; }),
            "residual = 'hyper_connections': residual_lanes = 1; hyper-connections need at least 2");
  EXPECT_EQ(why([](DecoderSpec& s) { s.residual = "rezero", s.placement = "post"; }),
            "residual = 'rezero': a norm after the addition undoes a branch that starts at zero; use "
            "placement = 'pre'");
  EXPECT_EQ(why([](DecoderSpec& s) { s.residual = "skip_init", s.placement = "post"; }),
            "residual = 'skip_init': a norm after the addition undoes a branch that starts at zero; use "
            "placement = 'pre'");
  EXPECT_EQ(why([](DecoderSpec& s) { s.residual = "deepnorm"; }),
            "residual = 'deepnorm': DeepNorm normalises what alpha x + f(x) gives, so it is Post-LN; set "
            "placement = 'post'");
  EXPECT_EQ(why([](DecoderSpec& s) { s.residual = "depth_scale"; }),
            "residual = 'depth_scale': GPT-2's init already scales what is written by 1/sqrt(2 n_layer), and "
            "both together "
            "damp it twice; set init.residual_scale = false");
  EXPECT_EQ(why([](DecoderSpec& s) { s.ffn.kind = "moe", s.ffn.top_k = 9; }),
            "ffn kind = 'moe': ffn.top_k = 9; it must lie between 1 and ffn.n_expert = 8");
}

}  // namespace
}  // namespace plumb
