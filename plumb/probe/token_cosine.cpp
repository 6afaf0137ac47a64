// Mean cosine of two different positions of a sequence at each block's output, averaged over sequences. Near
// 1: the positions say the same, rank collapse (Dong, Cordonnier & Loukas 2021, arXiv 2103.03404).
#include "plumb/base/error.h"
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

// Several lanes of stream are one vector of a position.
std::int64_t lanes_of(const DecoderSpec& s) {
  return s.residual == "hyper_connections" ? s.residual_lanes : 1;
}

class TokenCosine final : public BlockProbe<Mean> {
 public:
  explicit TokenCosine(const DecoderSpec& s)
      : BlockProbe(s),
        block_(s.block_size),
        lanes_(lanes_of(s)),
        width_(static_cast<std::size_t>(lanes_ * s.d_model)) {}
  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::forward && index_of(point, pattern) >= 0;
  }
  void begin(int n_shard) override {
    BlockProbe::begin(n_shard);
    scratch_.resize(static_cast<std::size_t>(n_shard) * width_);
  }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    if (!v.contiguous() && lanes_ > 1) fail("[token_cosine] the lanes of {} are not side by side", point);
    if (v.rows % (block_ * lanes_) != 0)
      fail("[token_cosine] {} rows are not whole sequences of {}; make the probe for the plan's block",
           v.rows, block_ * lanes_);
    const View<const float> rows{v.data, v.rows / lanes_, v.cols * lanes_, v.stride * lanes_};
    const auto scratch = std::span(scratch_).subspan(static_cast<std::size_t>(shard) * width_, width_);
    Mean mean;
    for (std::int64_t i = 0; i < rows.rows && block_ > 1; i += block_)
      mean.add(key_cosine_mean(rows.slice(i, block_), scratch));
    parts_.add(shard, index_of(point, pattern), mean);
  }
  void write(StepRow& row) const override {
    write_number(row, {"token_cosine", [](const Mean& m) { return m.value(); }}, parts_.total(), true);
  }

 private:
  static constexpr std::string_view pattern = "blocks.{i}.out";
  std::int64_t block_, lanes_;
  std::size_t width_;
  std::vector<double> scratch_;  // a row for each shard
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry token_cosine =
    probe_entry<TokenCosine>("token_cosine", "mean cosine of two positions of a sequence at blocks.{i}.out");
}  // namespace entries::probe

}  // namespace plumb
