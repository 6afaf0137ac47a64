// What each block's first norm reads, wherever its place is. Its std is to be compared with sqrt(norm_eps). A
// row's mean over its std is what LayerNorm takes out and RMSNorm leaves in.
#include <cmath>

#include "plumb/probe/probe.h"

namespace plumb {
namespace {

struct Read {
  Moments all;
  Mean ratio;  // (row's mean / row's std)²
  std::int64_t count = 0;
  void merge(const Read& o) { all.merge(o.all), ratio.merge(o.ratio), count += o.count; }
};

struct NormInput {
  static constexpr std::string_view point = "blocks.{i}.attn.norm_in";
  static constexpr Dir dir = Dir::forward;
  static Read measure(View<const float> v, std::int64_t) {
    Read r;
    r.all = moments(v);
    r.count = v.size();
    for (std::int64_t i = 0; i < v.rows; ++i) {
      const Moments row = moments(v.slice(i, 1));
      // A row of zeros is one for both norms.
      r.ratio.add(row.mean == 0 && row.squares == 0 ? 0 : row.mean * row.mean / row.variance());
    }
    return r;
  }
  static constexpr Number<Read> numbers[] = {
      {"norm_in_std", [](const Read& r) { return r.all.std(); }},
      {"norm_in_mean_over_std", [](const Read& r) { return std::sqrt(r.ratio.value()); }},
  };
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry norm_input = probe_entry<PointProbe<NormInput>>(
    "norm_input", "std of blocks.{i}.attn.norm_in, and its rows' means over their stds");
}  // namespace entries::probe

}  // namespace plumb
