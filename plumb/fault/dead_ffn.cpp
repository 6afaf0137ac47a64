// The first s d_ff slots of every feed-forward network never fire and get no gradient.
#include <algorithm>
#include <cmath>
#include "plumb/fault/fault.h"

namespace plumb {
namespace {

template <class R>
class DeadFfn final : public GraphFault<R> {
 public:
  DeadFfn(const DecoderSpec& s, double strength)
      : dead_(std::max<std::int64_t>(1, std::llround(strength * static_cast<double>(s.d_ff)))) {}
  Value at(Builder<R>& b, std::string_view point, Value v) override {
    if (!point.ends_with(".ffn.act")) return v;
    const auto factors = [dead = dead_](const Run<R>&, std::int64_t, std::int64_t, std::span<R> m) {
      for (std::size_t j = 0; j < m.size(); ++j) m[j] = static_cast<std::int64_t>(j) < dead ? R(0) : R(1);
    };
    return multiplied<R>(b, v, "dead_slots", factors, {}, std::string(point) + ".fault");
  }

 private:
  std::int64_t dead_;
};

std::string dead_ffn_refuses(const Config& c) {
  return c.ffn.kind == "moe" ? "it knows no experts; take another model.ffn.kind" : "";
}

}  // namespace

namespace entries::fault {
extern constexpr FaultEntry dead_ffn = graph_fault<DeadFfn>({
    .name = "dead_ffn",
    .what = "slots of the feed-forward networks never fire",
    .strength = "their share",
    .refuses = dead_ffn_refuses,
});
}  // namespace entries::fault

}  // namespace plumb
