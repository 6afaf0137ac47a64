// Parameter counts, from the built tensors.
#include <gtest/gtest.h>

#include "plumb/model/decoder.h"

namespace plumb {
namespace {

ParamCounts count(const DecoderSpec& s) { return count_params(s, decoder_layout<float>(s, Components{})); }

DecoderSpec chapter(std::int64_t n_layer, std::int64_t d_model, std::int64_t d_ff) {
  DecoderSpec s;
  s.n_layer = n_layer, s.d_model = d_model, s.d_ff = d_ff, s.d_head = d_model / s.n_head;
  return s;
}

// The seven published counts (the chapter, sections 2.10, 2.14 and 2.16).
TEST(ParamCounts, AreTheChapters) {
  DecoderSpec twelve = chapter(12, 128, 256);
  EXPECT_EQ(count(twelve).total, 1'745'664);
  twelve.norm = "rms";
  EXPECT_EQ(count(twelve).total, 1'742'464);
  EXPECT_EQ(count(chapter(4, 128, 128)).total, 558'336);
  EXPECT_EQ(count(chapter(4, 128, 256)).total, 689'920);
  EXPECT_EQ(count(chapter(4, 128, 512)).total, 953'088);
  EXPECT_EQ(count(chapter(4, 96, 552)).total, 697'056);
  EXPECT_EQ(count(chapter(4, 112, 392)).total, 697'536);
}

TEST(ParamCounts, PartsAddUpAndUntyingAddsTheEmbedding) {
  DecoderSpec s = chapter(12, 128, 256);
  const ParamCounts tied = count(s);
  EXPECT_EQ(tied.embedding + tied.position + tied.attention + tied.ffn + tied.norm + tied.residual + tied.head, tied.total);
  EXPECT_EQ(tied.embedding, 1200 * 128);
  EXPECT_EQ(tied.position, 64 * 128);
  EXPECT_EQ(tied.attention, 12 * 4 * 128 * 128);
  EXPECT_EQ(tied.ffn, 12 * (2 * 128 * 256 + 256 + 128));
  EXPECT_EQ(tied.norm, 12 * 4 * 128 + 2 * 128);
  EXPECT_EQ(tied.active, tied.total);
  s.tied_embeddings = false;
  EXPECT_EQ(count(s).total - tied.total, 1200 * 128);
}

}  // namespace
}  // namespace plumb
