// Whether the heads of a block say the same: mean over positions and pairs of heads of |cosine| of their
// context vectors. Random vectors of d_head channels have sqrt(2 / (pi d_head)) about; 1: one head would do.
// Michel, Levy & Neubig 2019, arXiv 1905.10650.
#include <cmath>

#include "plumb/kernel/rows.h"
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

class HeadRedundancy final : public BlockProbe<Mean> {
 public:
  explicit HeadRedundancy(const DecoderSpec& s)
      : BlockProbe(s), width_(s.d_head), n_head_(static_cast<std::size_t>(s.n_head)) {}
  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::forward && index_of(point, pattern) >= 0;
  }
  void begin(int n_shard) override {
    BlockProbe::begin(n_shard);
    norms_.resize(static_cast<std::size_t>(n_shard) * n_head_);
  }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    double* norms = norms_.data() + static_cast<std::size_t>(shard) * n_head_;
    Mean mean;
    for (std::int64_t i = 0; i < v.rows; ++i)
      for (std::size_t a = 0; a < n_head_; ++a) {
        const View<const float> head = of_head(v, i, a);
        norms[a] = std::sqrt(dot(head, head));
        for (std::size_t b = 0; b < a; ++b) {
          const double size = norms[a] * norms[b];
          mean.add(size == 0 ? 0 : std::abs(dot(head, of_head(v, i, b))) / size);
        }
      }
    parts_.add(shard, index_of(point, pattern), mean);
  }
  void write(StepRow& row) const override {
    write_number(row, {"head_cosine", [](const Mean& m) { return m.value(); }}, parts_.total(), true);
  }

 private:
  static constexpr std::string_view pattern = "blocks.{i}.attn.ctx";
  View<const float> of_head(View<const float> v, std::int64_t row, std::size_t head) const {
    return v.slice(row, 1).columns(static_cast<std::int64_t>(head) * width_, width_);
  }
  std::int64_t width_;
  std::size_t n_head_;
  std::vector<double> norms_;  // a row for each shard
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry head_redundancy =
    probe_entry<HeadRedundancy>("head_redundancy", "absolute cosine of two heads' context vectors", true);
}  // namespace entries::probe

}  // namespace plumb
