// Largest attention score of each block, over all heads and visible pairs of positions. Runs in which it
// passes 1e4 diverge (Wortsman et al. 2023, arXiv 2309.14322).
#include <cmath>
#include <limits>

#include "plumb/probe/probe.h"

namespace plumb {
namespace {

/// A maximum that is still being taken. NaN wins.
struct Largest {
  double value = -std::numeric_limits<double>::infinity();
  std::int64_t count = 0;
  void add(double x) {
    if (x > value || std::isnan(x)) value = x;
    ++count;
  }
  void merge(const Largest& o) {
    if (o.value > value || std::isnan(o.value)) value = o.value;
    count += o.count;
  }
};

struct MaxLogit {
  static constexpr std::string_view metric = "attn_max_logit", point = "blocks.{i}.attn.max_logit";
  static constexpr Dir dir = Dir::forward;
  static Largest measure(View<const float> v, std::int64_t) {
    Largest m;
    for (std::int64_t i = 0; i < v.rows; ++i)
      for (std::int64_t j = 0; j < v.cols; ++j) m.add(static_cast<double>(v.row(i)[j]));
    return m;
  }
  static double value(const Largest& m) { return m.value; }
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry max_logit =
    probe_entry<PointProbe<MaxLogit>>("max_logit", "largest attention score");
}  // namespace entries::probe

}  // namespace plumb
