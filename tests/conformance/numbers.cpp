// The checks of numbers: gradients, float against double, odd sizes, training.
#include <limits>

#include "plumb/base/error.h"
#include "tests/conformance/covering.h"
#include "tests/conformance/rig.h"

namespace plumb::conformance {
namespace {

// Smallest |pre-activation|: central differences across a kink (relu) are wrong although the gradient is
// right.
struct Margin final : Hook<double> {
  double least = std::numeric_limits<double>::infinity();
  bool wants(std::string_view point, Dir dir) const override {
    return dir == Dir::forward && point.ends_with(".pre");
  }
  void at(std::string_view, Dir, View<double> v, int) override {
    for (std::int64_t i = 0; i < v.rows; ++i)
      for (std::int64_t j = 0; j < v.cols; ++j) least = std::min(least, std::abs(v.row(i)[j]));
  }
};

// A seed under which no pre-activation lies near 0 (seen at the points ".pre"), so that no difference steps
// over a kink: the parameters are drawn again instead of shifting the activation, which would be another
// component.
std::uint64_t seed_without_kinks(const Subject& s, Scales scale, Size size) {
  std::uint64_t best = 1;
  double most = -1;
  Margin margin;
  Rig<double> rig(s, {.size = size, .scale = scale, .hooks = {&margin}});
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    randomise(rig.store, scale, seed);
    margin.least = std::numeric_limits<double>::infinity();
    rig.loss();
    if (margin.least > most) most = margin.least, best = seed;
    if (most > 4e-3) break;
  }
  return best;
}

// Fourth-order central difference of the loss in one element: its error is h^4 f^(5) / 30 and 1e-16 f / h.
double difference(Rig<double>& rig, double& element, double step) {
  const double kept = element, h = step * std::max(1.0, std::abs(kept));
  auto at = [&](double d) {
    element = kept + d;
    return rig.loss().loss;
  };
  const double d = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  element = kept;
  return d;
}

std::string check_gradients_at(const Subject& s, Scales scale, Size size, double* worst) {
  Rig<double> rig(s, {.size = size, .scale = scale, .seed = seed_without_kinks(s, scale, size)});
  const double loss = rig.loss_and_grad().loss;
  const std::vector<double> grads(rig.plan.grads().begin(), rig.plan.grads().end());
  const Stream draw = stream(3, "conformance/elements");
  for (const ParamInfo& p : rig.params()) {
    const View<const double> g{grads.data() + p.offset, 1, p.size(), p.size()};
    const double top = std::abs(g.data[largest(g)]);
    for (std::int64_t k = 0; k < 3; ++k) {
      const std::int64_t at =
          k == 0 ? largest(g)
                 : static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(p.size()), 0,
                                                        static_cast<std::uint64_t>(p.offset),
                                                        static_cast<std::uint64_t>(k)));
      // Large weights make the loss bend within the first steps; a gradient that is wrong is wrong against
      // any step.
      double n = 0, raw = 0;
      bool good = false;
      const double a = g.data[at];
      for (const double step : {1e-4, 1e-5, 2e-6}) {
        n = difference(rig, rig.store.view(p).data[at], step);
        // A loss of 1e6 (large weights, no norm) is itself rounded: what the difference makes of that does
        // not count.
        const double off = std::max(0.0, std::abs(a - n) - 4e-14 * loss / step);
        const double size = std::max({1.0, std::abs(a), std::abs(n)});
        raw = std::abs(a - n) / size;
        // The second bound sees a wrong term in a gradient that is small as a whole.
        good = off <= 1e-6 * size && off <= 1e-4 * top + 1e-8;
        if (good) break;
      }
      if (worst) *worst = std::max(*worst, raw);
      if (good) continue;
      return fmt::format(
          "{}: the gradient of {}[{}] is {:.9g}, central differences say {:.9g}: {:.2g} apart, 1e-6 allowed "
          "(steps 1e-4, 1e-5 and 2e-6; weights x {}, embeddings x {})",
          s.text(), p.spec.name, at, a, n, raw, scale.weights, scale.embeddings);
    }
  }
  return {};
}

// What evaluation is compared with.
Subject without_dropout(Subject s) {
  s.spec.noise.dropout = 0;
  return s;
}

// Float against double on the same numbers. An op's result differs by at most K units of rounding of its
// terms' sizes, K its longest sum; a gradient has passed through every op forward and back, each time times
// another rounded factor, so the bound is 4 · ops · K · 2^-24 of the tensor's largest element. Where terms
// cancel (p - 1 at the loss, a key's bias, a norm of two values) their own size counts: a tenth of the
// largest gradient anywhere, at least of 1. A badly conditioned model (a norm of nearly equal values)
// amplifies rounding by more; how much is measured: rounding in an op is like a relative change of 2^-24 of
// what it reads, so the gradient may also move by ops times what such a change of all parameters moves it in
// double.
std::string compare_float(const Subject& s, Size size, double* worst) {
  Rig<double> wide(s, {.size = size});
  Rig<float> narrow(s, {.size = size});
  const LossResult a = wide.loss_and_grad(), b = narrow.loss_and_grad();
  std::int64_t longest = std::max(s.spec.vocab_size, size.batch * size.block);
  for (const auto& [shape, impl] : wide.plan.products()) longest = std::max(longest, shape.k);
  const double bound =
      4 * static_cast<double>(wide.plan.graph().nodes.size()) * static_cast<double>(longest) * std::exp2(-24);
  double top = 0;
  for (double g : wide.plan.grads()) top = std::max(top, std::abs(g));
  const std::string where = fmt::format("{}, {} x {}", s.text(), size.batch, size.block);
  Rig<double> moved(s, {.size = size});
  const Stream sign = stream(3, "conformance/rounding");
  for (std::size_t i = 0; double& v : moved.store.values())
    v *= 1 + std::exp2(-24) * (sign.below(2, 0, 0, i++) ? 1 : -1);
  moved.loss_and_grad();
  if (!std::isfinite(a.loss) || !std::isfinite(top))
    return fmt::format("{}: the loss is {}, a gradient {}", where, a.loss, top);
  if (!(std::abs(a.loss - b.loss) <= bound * std::max(1.0, std::abs(a.loss))))
    return fmt::format("{}: the loss is {:.9g} in double, {:.9g} in float", where, a.loss, b.loss);
  if (!wide.plan.graph().cross_batch()) {  // float adds in another order in evaluation: rows are steady there
    const double e = Rig<float>(s, {.size = size, .mode = Mode::eval}).loss().loss;
    const double t =
        s.spec.noise.dropout > 0 ? Rig<double>(without_dropout(s), {.size = size}).loss().loss : a.loss;
    if (!(std::abs(t - e) <= bound * std::max(1.0, std::abs(t))))
      return fmt::format("{}: the loss is {:.9g} in double, {:.9g} in evaluation in float", where, t, e);
  }
  for (const ParamInfo& p : wide.params()) {
    const View<double> g = wide.grad(p);
    const View<float> f = narrow.plan.grad(p.spec.name);
    double sensitivity = 0;
    for (std::int64_t i = 0; i < g.size(); ++i)
      sensitivity = std::max(sensitivity, std::abs(g.data[i] - moved.grad(p).data[i]));
    const double allowed = std::max(bound * std::max(std::abs(g.data[largest(g)]), 0.1 * std::max(1.0, top)),
                                    static_cast<double>(wide.plan.graph().nodes.size()) * sensitivity);
    for (std::int64_t i = 0; i < g.size(); ++i) {
      const double off = std::abs(g.data[i] - static_cast<double>(f.data[i]));
      if (worst && allowed > 0) *worst = std::max(*worst, off / allowed);
      if (!(off <= allowed))
        return fmt::format(
            "{}: the gradient of {}[{}] is {:.9g} in double, {:.9g} in float (allowed: {:.2g})", where,
            p.spec.name, i, g.data[i], f.data[i], allowed);
    }
  }
  return {};
}

}  // namespace

std::string check_gradients(const Subject& s, double* worst) {
  for (const Scales scale : {Scales{1, 1}, {1, 0.1}, {1, 10}, {0.1, 1}, {10, 1}})
    if (std::string e = check_gradients_at(s, scale, {3, 5}, worst); !e.empty()) return e;
  return check_gradients_at(s, {1, 1}, {1, 40}, worst);  // longer than any tile of 32
}

std::string check_pair(const Subject& s) { return check_gradients_at(s, {1, 1}, {3, 5}, nullptr); }

std::string check_twin(const Subject& s) {
  struct Curious final : Hook<double> {
    bool wants(std::string_view point, Dir) const override { return interior(point); }
    void at(std::string_view, Dir, View<double>, int) override {}
  } hook;
  Rig<double> tiles(s, {.size = {3, 9}}), composed(s, {.size = {3, 9}, .hooks = {&hook}});
  const double a = tiles.loss_and_grad().loss, b = composed.loss_and_grad().loss;
  auto differ = [](double x, double y, double size) {
    return !(std::abs(x - y) <= 1e-11 * std::max(1.0, size));
  };
  if (differ(a, b, std::abs(a)))
    return fmt::format("{}: the loss is {:.15g} in tiles, {:.15g} composed", s.text(), a, b);
  double top = 0;
  for (double g : tiles.plan.grads()) top = std::max(top, std::abs(g));
  for (const ParamInfo& p : tiles.params())
    for (std::int64_t i = 0; i < p.size(); ++i)
      if (const double x = tiles.grad(p).data[i], y = composed.grad(p).data[i]; differ(x, y, top))
        return fmt::format("{}: the gradient of {}[{}] is {:.12g} in tiles, {:.12g} composed", s.text(),
                           p.spec.name, i, x, y);
  return {};
}

std::string check_float(const Subject& s, double* worst) { return compare_float(s, {3, 5}, worst); }

std::string check_odd_sizes(const Subject& s) {
  for (const Size size : {Size{1, 1}, {2, 1}, {1, 5}, {1, 33}}) {
    const std::string where = fmt::format("{}, {} x {}", s.text(), size.batch, size.block);
    try {
      if (std::string e = compare_float(s, size, nullptr); !e.empty()) return e;
    } catch (const Error& e) {
      // What couples the batch may say that one value is too few.
      const bool coupled = build_decoder<double>(s.spec, *s.components, Mode::train, 1).cross_batch();
      if (size.batch * size.block == 1 && coupled && e.exit_code == 2) continue;
      return where + ": " + e.what();
    }
    Rig<double> train(without_dropout(s), {.size = size}), eval(s, {.size = size, .mode = Mode::eval});
    const double t = train.loss().loss, e = eval.loss().loss;
    if (!train.plan.graph().cross_batch() && t != e)
      return fmt::format("{}: the loss is {} while training, {} in evaluation", where, t, e);
  }
  return {};
}

namespace {

// 0 1 2 3 0 1 …
template <class R>
void repeat_four(Rig<R>& rig) {
  for (std::size_t i = 0; i < rig.t.x.size(); ++i) {
    rig.t.x[i] = static_cast<std::int32_t>(i % 4);
    rig.t.y[i] = static_cast<std::int32_t>((i + 1) % 4);
  }
}

/// Adam over all parameters, in double.
template <class R>
class Adam {
 public:
  Adam(Rig<R>& rig, double lr, double eps)
      : rig_(rig), lr_(lr), eps_(eps), m_(rig.store.values().size()), v_(m_.size()) {}
  /// The cross-entropy before the update.
  double step() {
    const double loss = rig_.loss_and_grad().cross_entropy;
    rig_.plan.commit();
    ++t_;
    const auto p = rig_.store.values();
    const auto g = rig_.plan.grads();
    for (std::size_t i = 0; i < p.size(); ++i) {
      const auto gi = static_cast<double>(g[i]);
      m_[i] = 0.9 * m_[i] + 0.1 * gi;
      v_[i] = 0.95 * v_[i] + 0.05 * gi * gi;
      const double mean = m_[i] / (1 - std::pow(0.9, t_)), square = v_[i] / (1 - std::pow(0.95, t_));
      p[i] = static_cast<R>(static_cast<double>(p[i]) - lr_ * mean / (std::sqrt(square) + eps_));
    }
    return loss;
  }

 private:
  Rig<R>& rig_;
  double lr_, eps_;
  std::vector<double> m_, v_;
  int t_ = 0;
};

}  // namespace

std::string check_training(const Subject& s) {
  Rig<float> rig(s, {.size = {2, 8}, .threads = 2, .own_start = true});
  repeat_four(rig);
  Adam<float> adam(rig, 0.02, 1e-8);
  double first = 0, last = 0;
  for (int step = 1; step <= 20; ++step) {
    last = adam.step();
    if (step == 1) first = last;
    if (!std::isfinite(last)) return fmt::format("{}: the loss is {} at step {}", s.text(), last, step);
  }
  if (!(last < 0.9 * first))
    return fmt::format("{}: 20 steps took the loss from {:.4f} to {:.4f} only", s.text(), first, last);
  return {};
}

// An eps of 1e-5 keeps Adam from making whole steps out of a gradient that is rounding alone (a key's bias).
// How many tokens each expert of each layer was given in a step.
template <class R>
struct Loads final : Hook<R> {
  std::vector<double> seen;
  bool wants(std::string_view p, Dir d) const override {
    return d == Dir::forward && p.ends_with(".ffn.load");
  }
  void at(std::string_view, Dir, View<R> v, int) override {
    for (std::int64_t i = 0; i < v.size(); ++i) seen.push_back(static_cast<double>(v.data[i]));
  }
};

std::string check_five_steps(const Subject& s, double* worst) {
  Loads<float> few;
  Loads<double> many;
  Rig<float> narrow(s, {.own_start = true, .hooks = {&few}});
  Rig<double> wide(s, {.own_start = true, .hooks = {&many}});
  for (const ParamInfo& p : wide.params()) {  // offsets differ: everything starts on a cache line
    const View<float> from = narrow.store.param(p.spec.name);
    std::ranges::copy(std::span(from.data, static_cast<std::size_t>(from.size())), wide.store.view(p).data);
  }
  Adam<float> a(narrow, 0.01, 1e-5);
  Adam<double> b(wide, 0.01, 1e-5);
  for (int step = 1; step <= 5; ++step) {
    few.seen.clear(), many.seen.clear();
    const double f = a.step(), d = b.step(), off = std::abs(f - d) / std::max(1.0, std::abs(d));
    // A token between two experts goes to one in float and to the other in double: from there on they are two models, by
    // a jump of the function and not by its arithmetic.
    if (step > 1 && few.seen != many.seen) return {};
    if (worst) *worst = std::max(*worst, off);
    if (!(off <= 1e-4))
      return fmt::format("{}: at step {} the loss is {:.9g} in double, {:.9g} in float", s.text(), step, d,
                         f);
  }
  return {};
}

// Tables of std 0.5, 1/sqrt(d_model): 0.02 belongs to a width of 768, and norms that do not normalise see it.
double learned(const Subject& subject) {
  Subject s = subject;
  s.spec.init.std = 0.5;
  s.spec.init.base_d_model = s.spec.d_model;
  Rig<float> rig(s, {.size = {2, 8}, .own_start = true});
  repeat_four(rig);
  Adam<float> adam(rig, 0.005, 1e-8);
  double loss = 0;
  for (int step = 0; step < 200; ++step) loss = adam.step();
  return loss / std::log(4.0);
}

}  // namespace plumb::conformance
