// The lens on a block against a model whose later blocks write nothing, and on the last block against the model itself.
#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "tests/instrument/rig.h"

namespace plumb::test {
namespace {

TEST(LogitLens, IsTheModelWhoseLaterBlocksWriteNothing) {
  OnSmall s({"init.std=0.2"});
  const Json r = s.read("logit_lens");
  const Json::Array& layers = list(r, "layers");
  ASSERT_EQ(layers.size(), 2U);
  const Seen silent = s.p.pass(Mode::eval, [](std::string_view point, View<float> v, std::int64_t) {
    if (point != "blocks.1.attn.write" && point != "blocks.1.ffn.write") return;
    for (std::int64_t i = 0; i < v.rows; ++i) std::fill_n(v.row(i), v.cols, 0.0F);
  });
  const Seen whole = s.p.pass(Mode::eval);
  EXPECT_NEAR(number(layers[0], "loss"), silent.loss.cross_entropy, 1e-6);
  EXPECT_NEAR(number(layers[1], "loss"), whole.loss.cross_entropy, 1e-6);
  EXPECT_EQ(number(layers[1], "same_first"), 1);
  EXPECT_GT(std::abs(number(layers[0], "loss") - number(layers[1], "loss")), 1e-3);
}

TEST(LogitLens, OneBlock) {
  OnSmall s;
  const Json r = s.read("logit_lens", {.layer = 1});
  ASSERT_EQ(list(r, "layers").size(), 1U);
  EXPECT_EQ(number(list(r, "layers")[0], "layer"), 1);
  EXPECT_THROW(s.read("logit_lens", {.layer = 2}), Error);
}

}  // namespace
}  // namespace plumb::test
