// Which slots of each block's feed-forward layer take part. A slot is active where its pre-activation (of the
// gate, where there is one) is above 0, and dead when it is so at no position of the step's batch. Gelu's
// dead slots still write a little: by the second definition a slot is dead when the activation that is read
// from it, in absolute value, never exceeds 0.1. Dead at the last look and not now: revived. A mixture of
// experts has no such points.
#include "plumb/base/error.h"
#include "plumb/probe/probe.h"

namespace plumb {
namespace {

constexpr float small_activation = 0.1F;

/// Of the positions of a shard, or of all.
struct Activity {
  std::int64_t count = 0, active = 0;  // pairs of a position and a slot
  bool nan = false;
  // Shares of the slots, and a number of them: known when the shards are joined.
  double dead = 0, dead_small = 0, revived = 0;
  void merge(const Activity& o) { count += o.count, active += o.active, nan |= o.nan; }
};

double unless_nan(const Activity& a, double x) {
  return a.nan ? std::numeric_limits<double>::quiet_NaN() : x;
}

constexpr Number<Activity> slot_shares[] = {
    {"ffn_active",
     [](const Activity& a) {
       return unless_nan(a, static_cast<double>(a.active) / static_cast<double>(a.count));
     }},
    {"ffn_dead", [](const Activity& a) { return unless_nan(a, a.dead); }},
    {"ffn_dead_small", [](const Activity& a) { return unless_nan(a, a.dead_small); }},
};
constexpr Number<Activity> slots_revived = {"ffn_revived",
                                            [](const Activity& a) { return unless_nan(a, a.revived); }};

constexpr std::string_view pre_point = "blocks.{i}.ffn.pre", act_point = "blocks.{i}.ffn.act";

class FfnActivity final : public Probe {
 public:
  explicit FfnActivity(const DecoderSpec& s)
      : n_layer_(static_cast<std::size_t>(s.n_layer)),
        n_slot_(static_cast<std::size_t>(s.d_ff)),
        parts_(s.n_layer),
        layers_(n_layer_) {}
  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::forward && (index_of(point, pre_point) >= 0 || index_of(point, act_point) >= 0);
  }
  void begin(int n_shard) override {
    parts_.begin(n_shard);
    layers_.assign(n_layer_, {});
    for (auto* tops : {&pre_, &act_})
      tops->assign(static_cast<std::size_t>(n_shard) * n_layer_ * n_slot_,
                   -std::numeric_limits<float>::infinity());
  }
  void at(std::string_view point, Dir, View<float> v, int shard) override {
    if (static_cast<std::size_t>(v.cols) != n_slot_)
      fail("[ffn_activity] {} has {} slots, the spec's d_ff is {}", point, v.cols, n_slot_);
    Activity part;
    if (const int index = index_of(point, pre_point); index >= 0) {
      part.count = v.size();
      const Tops seen = raise_tops(v, false, tops(pre_, shard, index));
      part.active = seen.above;
      part.nan = seen.nan;
      parts_.add(shard, index, part);
    } else {
      const int layer = index_of(point, act_point);
      part.nan = raise_tops(v, true, tops(act_, shard, layer)).nan;
      parts_.add(shard, layer, part);
    }
  }
  void merge(int n_shard) override {
    parts_.merge();
    layers_ = parts_.total();
    if (std::ranges::all_of(layers_, [](const Activity& a) { return a.count == 0; })) return;
    compared_ = !dead_.empty();
    dead_.resize(n_layer_ * n_slot_);
    for (std::size_t i = 0; i < n_layer_; ++i) {
      std::int64_t dead = 0, dead_small = 0, back = 0;
      for (std::size_t j = i * n_slot_; j < (i + 1) * n_slot_; ++j) {
        const bool now = !(largest(pre_, n_shard, j) > 0);
        dead += now, dead_small += !(largest(act_, n_shard, j) > small_activation), back += dead_[j] && !now;
        dead_[j] = now;
      }
      const auto n = static_cast<double>(n_slot_);
      layers_[i].dead = static_cast<double>(dead) / n;
      layers_[i].dead_small = static_cast<double>(dead_small) / n;
      layers_[i].revived = static_cast<double>(back);
    }
  }
  void write(StepRow& row) const override {
    for (const auto& n : slot_shares) write_number(row, n, layers_, true);
    if (compared_) write_number(row, slots_revived, layers_, true);
  }
  /// A hexadecimal digit for four slots.
  std::string memory() const override {
    std::string text;
    for (std::size_t i = 0; i < dead_.size(); i += 4) {
      unsigned digit = 0;
      for (std::size_t j = i; j < std::min(i + 4, dead_.size()); ++j) digit |= unsigned(dead_[j]) << (j - i);
      text += "0123456789abcdef"[digit];
    }
    return text;
  }
  void recall(std::string_view text) override {
    const std::size_t n = n_layer_ * n_slot_;
    if (text.size() != (n + 3) / 4 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos)
      bad_input("[ffn_activity] what is remembered of dead slots is not of {} blocks of {} slots", n_layer_,
                n_slot_);
    dead_.resize(n);
    for (std::size_t j = 0; j < n; ++j) {
      const char c = text[j / 4];
      dead_[j] = static_cast<unsigned char>((c <= '9' ? c - '0' : c - 'a' + 10) >> (j % 4) & 1);
    }
  }

 private:
  std::span<float> tops(std::vector<float>& all, int shard, int layer) const {
    const auto at = static_cast<std::size_t>(shard) * n_layer_ + static_cast<std::size_t>(layer);
    return std::span(all).subspan(at * n_slot_, n_slot_);
  }
  /// Of a slot, counted through all layers, over the shards.
  float largest(const std::vector<float>& all, int n_shard, std::size_t slot) const {
    float top = all[slot];
    for (std::size_t k = 1; k < static_cast<std::size_t>(n_shard); ++k)
      top = std::max(top, all[k * n_layer_ * n_slot_ + slot]);
    return top;
  }

  std::size_t n_layer_, n_slot_;
  Parts<Activity> parts_;
  std::vector<Activity> layers_;
  std::vector<float> pre_, act_;     // the largest pre-activation and |activation| by shard, layer and slot
  std::vector<unsigned char> dead_;  // by layer and slot, at the last look; empty before the first
  bool compared_ = false;
};

}  // namespace

namespace entries::probe {
extern constexpr ProbeEntry ffn_activity =
    probe_entry<FfnActivity>("ffn_activity", "active, dead and revived slots of the feed-forward layer");
}  // namespace entries::probe

}  // namespace plumb
