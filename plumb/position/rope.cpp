// Rotary positions: pairs of columns of q and k turn by p b^(-2i/d). Su et al. 2021, arXiv 2104.09864, eq. 34.
//
//   (a, b) -> (a cos - b sin, a sin + b cos); backward turns by the opposite angle
//   half: pairs (i, i + d/2), as Llama; interleaved: (2i, 2i + 1), as the paper
//   linear        frequency / s
//   ntk           b s^(d/(d-2))
//   dynamic_ntk   b (s n/L - (s - 1))^(d/(d-2)), n the length past L
//   yarn          frequency/s and frequency mixed by a ramp over the pair index from dim(32) to dim(1),
//                 dim(r) = d ln(L / 2 pi r) / 2 ln b; cos and sin times 0.1 ln s + 1
//
// linear: Chen et al. 2023, arXiv 2306.15595; ntk: bloc97 2023 (NTK-aware scaling); dynamic_ntk: emozilla 2023, as
// in transformers; yarn: Peng et al. 2023, arXiv 2309.00071, the ramp as in its authors' code (the paper's text is
// linear in L frequency / 2 pi). Shapes: q (B, T, H·D), k (B, T, KV·D); the first d = fraction D columns of a head
// turn, the rest stay. No parameters.
#include "plumb/position/rope.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>

#include "plumb/base/error.h"
#include "plumb/position/position.h"

namespace plumb {
namespace {

double ntk_base(double base, double factor, double d) { return base * std::pow(factor, d / (d - 2)); }

std::int64_t turned_columns(const DecoderSpec& s) {
  return 2 *
         static_cast<std::int64_t>(std::floor(s.rope.fraction * static_cast<double>(s.d_head) / 2 + 1e-9));
}

/// How far pair i of d/2 is from its own frequency (0) to frequency/s (1).
double yarn_ramp(const DecoderSpec::Rope& r, double d, double i) {
  const auto dim = [&](double turns) {
    return d * std::log(static_cast<double>(r.original_block_size) / (2 * std::numbers::pi * turns)) /
           (2 * std::log(r.base));
  };
  const double low = std::max(0.0, std::floor(dim(32)));
  double high = std::min(d - 1, std::ceil(dim(1)));
  if (low == high) high += 0.001;
  return std::clamp((i - low) / (high - low), 0.0, 1.0);
}

template <class R>
class Rope final : public Rotation<R> {
 public:
  /// The angles of `rows` positions are kept, from the first turn on: a graph that never runs has none.
  Rope(const DecoderSpec& s, std::int64_t rows)
      : rule_(s.rope),
        head_(s.d_head),
        d_(turned_columns(s)),
        rows_(rows),
        interleaved_(s.rope.layout == "interleaved") {}

  void turn(View<const R> x, Sink<R> y, std::int64_t first, std::int64_t length, bool back) const override {
    const std::int64_t pairs = d_ / 2;
    const bool kept = first + x.rows <= rows_ && same_angles(length);
    if (kept) std::call_once(filled_, [this] { fill(); });
    std::vector<R> own(kept ? 0 : static_cast<std::size_t>(d_));  // only while decoding past what is kept
    const RopeAngles a = kept ? RopeAngles{} : rope_angles(rule_, d_, length);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      const R *c = cos_.data() + (first + row) * pairs, *s = sin_.data() + (first + row) * pairs;
      if (!kept) {
        for (std::int64_t i = 0; i < pairs; ++i)
          set(a, first + row, static_cast<std::size_t>(i), own[static_cast<std::size_t>(i)],
              own[static_cast<std::size_t>(pairs + i)]);
        c = own.data(), s = own.data() + pairs;
      }
      for (std::int64_t at = 0; at < x.cols; at += head_) {
        const R* from = x.row(row) + at;
        R* to = y.v.row(row) + at;
        if (interleaved_)
          turn_head<2>(from, to, c, s, 1, back ? R(-1) : R(1), y.overwrite);
        else
          turn_head<1>(from, to, c, s, pairs, back ? R(-1) : R(1), y.overwrite);
        for (std::int64_t j = d_; j < head_; ++j) to[j] = y.overwrite ? from[j] : to[j] + from[j];
      }
    }
  }

 private:
  // Pair i: columns kStep i and kStep i + apart.
  template <std::int64_t kStep>
  void turn_head(const R* from, R* to, const R* c, const R* s, std::int64_t apart, R sign,
                 bool overwrite) const {
    for (std::int64_t i = 0; i < d_ / 2; ++i) {
      const R a = from[kStep * i], b = from[kStep * i + apart], turn = sign * s[i];
      const R first = a * c[i] - b * turn, second = a * turn + b * c[i];
      to[kStep * i] = overwrite ? first : to[kStep * i] + first;
      to[kStep * i + apart] = overwrite ? second : to[kStep * i + apart] + second;
    }
  }
  static void set(const RopeAngles& a, std::int64_t position, std::size_t pair, R& c, R& s) {
    const double angle = static_cast<double>(position) * a.frequency[pair];
    c = static_cast<R>(a.magnitude * std::cos(angle));
    s = static_cast<R>(a.magnitude * std::sin(angle));
  }
  void fill() const {
    const RopeAngles a = rope_angles(rule_, d_, rows_);
    const auto pairs = static_cast<std::size_t>(d_ / 2), rows = static_cast<std::size_t>(rows_);
    cos_.resize(rows * pairs);
    sin_.resize(rows * pairs);
    for (std::size_t p = 0; p < rows; ++p)
      for (std::size_t i = 0; i < pairs; ++i)
        set(a, static_cast<std::int64_t>(p), i, cos_[p * pairs + i], sin_[p * pairs + i]);
  }
  bool same_angles(std::int64_t length) const {
    return rule_.scaling != "dynamic_ntk" ||
           std::max(length, rule_.original_block_size) == std::max(rows_, rule_.original_block_size);
  }
  DecoderSpec::Rope rule_;
  std::int64_t head_, d_, rows_;
  bool interleaved_;
  mutable std::once_flag filled_;
  mutable std::vector<R> cos_, sin_;  // (rows, d / 2)
};

template <class R>
class RopePosition final : public Position<R> {
 public:
  explicit RopePosition(const DecoderSpec& s) : s_(s) {}
  std::shared_ptr<const Rotation<R>> rotation(std::int64_t rows, bool local) const override {
    if (!local) return std::make_shared<Rope<R>>(s_, rows);
    if (s_.rope.local_base <= 0) return {};
    DecoderSpec s = s_;
    s.rope.base = s_.rope.local_base, s.rope.scaling = "none";
    return std::make_shared<Rope<R>>(s, rows);
  }

 private:
  DecoderSpec s_;
};

std::string rope_refuses(const DecoderSpec& s) {
  const std::int64_t d = turned_columns(s);
  if (d < 2)
    return fmt::format(
        "rotary positions turn pairs of columns, but model.rope.fraction = {} of d_head = {} is no pair; "
        "raise "
        "one of them",
        s.rope.fraction, s.d_head);
  if (s.rope.fraction == 1 && s.d_head % 2 != 0)
    return fmt::format(
        "rotary positions turn pairs of columns, but d_head = {} is odd; make it even or lower "
        "model.rope.fraction",
        s.d_head);
  if (s.rope.scaling.ends_with("ntk") && d < 4)
    return fmt::format(
        "model.rope.scaling = \"{}\" needs at least 4 columns that turn, there are {}; raise d_head",
        s.rope.scaling, d);
  return {};
}

}  // namespace

double dynamic_ntk_base(const DecoderSpec::Rope& r, std::int64_t d, std::int64_t length) {
  const auto n = static_cast<double>(std::max(length, r.original_block_size));
  return ntk_base(r.base, r.factor * n / static_cast<double>(r.original_block_size) - (r.factor - 1),
                  static_cast<double>(d));
}

RopeAngles rope_angles(const DecoderSpec::Rope& r, std::int64_t d, std::int64_t length) {
  const auto width = static_cast<double>(d);
  double base = r.base;
  if (r.scaling == "ntk") base = ntk_base(r.base, r.factor, width);
  if (r.scaling == "dynamic_ntk") base = dynamic_ntk_base(r, d, length);
  RopeAngles a;
  for (std::int64_t i = 0; i < d / 2; ++i) {
    double f = std::pow(base, -2 * static_cast<double>(i) / width);
    if (r.scaling == "linear") f /= r.factor;
    if (r.scaling == "yarn") {
      const double ramp = yarn_ramp(r, width, static_cast<double>(i));
      f = f / r.factor * ramp + f * (1 - ramp);
    }
    a.frequency.push_back(f);
  }
  if (r.scaling == "yarn" && r.factor > 1) a.magnitude = 0.1 * std::log(r.factor) + 1;
  return a;
}

namespace entries::position {
extern constexpr PositionEntry rope = position_entry<RopePosition>({
    .name = "rope",
    .purpose = "Relative distances by rotation of queries and keys: Llama's, and of most models since.",
    .formula = "pair i of q and k turns by p base^(-2i/d) at position p, so scores depend on distances alone",
    .paper = "Su et al. 2021 (RoFormer), arXiv 2104.09864; Peng et al. 2023 (YaRN), arXiv 2309.00071",
    .pitfalls =
        "The two layouts differ by a permutation of the rows of W_q and W_k: weights of one, read as the "
        "other, give "
        "a model that runs and is wrong. Never on v. Angles are float32 whatever the model's precision. With "
        "dynamic_ntk, keys that were turned before the sequence grew have the wrong base; the cache keeps "
        "them unturned. Past the "
        "first layer its keys were still made of states of a shorter sequence, so logits are not quite those "
        "of one pass.",
    .fields = "model.rope.base, model.rope.local_base, model.rope.layout, model.rope.fraction, "
              "model.rope.scaling, model.rope.factor, "
              "model.rope.original_block_size",
    .refuses = rope_refuses,
});
}  // namespace entries::position

}  // namespace plumb
