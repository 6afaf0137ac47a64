// How much of the gradient comes back to each block's output by the identity path. With x_l the stream after
// block l, x_L after the last, v = dL/dx_L and g = dL/dx_l:
//
//   g = v + Σ over later blocks of d(write)/dx_l^T v,   share = ||v||² / (||v||² + ||g - v||²)
//
// 1: the branches above add nothing to the gradient; near 0: nothing of the identity is left, as after norms
// on the stream. He et al. 2016, arXiv 1603.05027, eq. 5.
#include "plumb/base/error.h"
#include "plumb/kernel/rows.h"
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct Shares {
  double last = 0, moved = 0;  // Σ v², Σ (g - v)²
  std::int64_t count = 0;
  void merge(const Shares& o) { last += o.last, moved += o.moved, count += o.count; }
};

class IdentityShare final : public BlockProbe<Shares> {
 public:
  explicit IdentityShare(const DecoderSpec& s) : BlockProbe(s), last_(static_cast<int>(s.n_layer) - 1) {}
  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::backward && index_of(point, pattern) >= 0;
  }
  void begin(int n_shard) override {
    BlockProbe::begin(n_shard);
    v_.resize(static_cast<std::size_t>(n_shard));
  }
  void at(std::string_view point, Dir, View<float> g, int shard) override {
    const int index = index_of(point, pattern);
    std::vector<float>& v = v_[static_cast<std::size_t>(shard)];
    if (index == last_) {  // backward begins with it
      v.resize(static_cast<std::size_t>(g.size()));
      for (std::int64_t i = 0; i < g.rows; ++i) std::copy_n(g.row(i), g.cols, v.data() + i * g.cols);
    }
    if (static_cast<std::int64_t>(v.size()) != g.size())
      fail("[identity_share] {} has {} elements, the last block's gradient {}", point, g.size(), v.size());
    const View<const float> last{v.data(), g.rows, g.cols, g.cols};
    Shares s;
    s.last = sum_squares(last);
    s.moved = squared_distance<float>(g, last);
    s.count = g.size();
    parts_.add(shard, index, s);
  }
  void write(StepRow& row) const override {
    write_number(row, {"identity_share", [](const Shares& s) { return s.last / (s.last + s.moved); }},
                 parts_.total(), true);
  }

 private:
  static constexpr std::string_view pattern = "blocks.{i}.out";
  int last_;
  std::vector<std::vector<float>> v_;  // of each shard: its rows' gradient at the last block's output
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry identity_share = probe_entry<IdentityShare>(
    "identity_share", "how much of the gradient at blocks.{i}.out came by the identity path");
}  // namespace entries::probe

}  // namespace plumb
