// The norms: their input is multiplied, one of its rows is changed, it is made constant or very large.
#include <algorithm>
#include <cmath>
#include <limits>

#include "plumb/study/audit.h"

namespace plumb {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Edit times(const std::string& point, float by) {
  return [point, by](std::string_view at, View<float> v, std::int64_t) {
    if (at != point) return;
    for (std::int64_t i = 0; i < v.rows; ++i)
      for (std::int64_t j = 0; j < v.cols; ++j) v.row(i)[j] *= by;
  };
}

// How the rms at `out` follows that at `in`, over inputs `by` and `by`^2 times as large: 0 of a norm, 1 of what is linear.
struct Response {
  double exponent = nan, first = nan, last = nan;
};

Response response(Patient& p, const std::string& in, const std::string& out, double by) {
  const Seen once = p.pass_to(out, times(in, static_cast<float>(by))),
             twice = p.pass_to(out, times(in, static_cast<float>(by * by)));
  const Grid<float>*a = once.find(out), *b = twice.find(out);
  if (!a || !b) return {};
  if (!(rms(*a) > 0)) return {nan, rms(*a), rms(*b)};
  return {std::log(rms(*b) / rms(*a)) / std::log(by), rms(*a), rms(*b)};
}

// Row 1 of the first sequence is changed: which others follow?
std::string coupling(Patient& p, const std::string& in, const std::string& out, const Grid<float>& before) {
  const Seen s = p.pass_to(out, [&](std::string_view at, View<float> v, std::int64_t first) {
    if (at != in || first > 1 || v.rows < 2) return;
    for (std::int64_t j = 0; j < v.cols; ++j) v.row(1 - first)[j] *= j % 2 ? 3.0F : -2.0F;
  });
  const Grid<float>* after = s.find(out);
  if (!after || after->data.size() != before.data.size()) return "unknown";
  // Rows that stand after the changed one may see it by attention, but a norm's own input is what was changed.
  const double much = 1e-4 * rms(before);
  bool others = false, same = false;
  for (std::int64_t i = 0; i < before.rows; ++i) {
    if (i == 1) continue;
    const auto a = row_of(before, i), b = row_of(*after, i);
    double most = 0;
    for (std::size_t j = 0; j < a.size(); ++j)
      most = std::max(most, std::abs(static_cast<double>(a[j]) - b[j]));
    if (most > much) (i < p.block() ? same : others) = true;
  }
  return others ? "batch" : same ? "sequence" : "none";
}

bool finite_of_constant(Patient& p, const std::string& in, const std::string& out) {
  const Seen s = p.pass_to(out, [&](std::string_view at, View<float> v, std::int64_t first) {
    if (at == in && first == 0) std::fill_n(v.row(0), v.cols, 0.0F);
  });
  const Grid<float>* y = s.find(out);
  return !y || std::ranges::all_of(row_of(*y, 0), [](float v) { return std::isfinite(v); });
}

}  // namespace

void audit_norms(Patient& p, FactSheet& facts) {
  // Multiplying by 1,000 twice takes eps out of the first; half precision ends at 65,504.
  const bool half = p.sick.train.precision == "fp16_pure";
  const double by = half ? 16 : 1000;
  std::vector<std::string> places, couples;
  std::vector<double> exponents, eps_over_var, gains, of_large;
  bool finite = true;
  const Seen base = p.pass(Mode::train);
  std::vector<std::int64_t> layers{0};
  for (const std::int64_t l : {p.spec.n_layer / 2, p.spec.n_layer - 1})
    if (l != layers.back()) layers.push_back(l);
  for (const std::int64_t layer : layers)
    for (const std::string_view sub : {".attn", ".ffn"}) {
      const std::string out = block_point(layer, std::string(sub) + ".norm"), in = out + "_in";
      const Grid<float>*x = base.find(in), *y = base.find(out);
      if (!x || !y) continue;
      const Response r = response(p, in, out, by);
      places.push_back(out);
      exponents.push_back(r.exponent);
      // rms(y) = gain sqrt(var / (var + eps)): of the input as it comes, against one by^2 times as large.
      const double full = std::pow(r.first / rms(*y), 2) - 1;
      eps_over_var.push_back(std::abs(r.exponent) < 0.05 ? std::max(0.0, full) : nan);
      gains.push_back(std::abs(r.exponent) < 0.05 || r.last == 0 ? r.last : nan);
      couples.push_back(coupling(p, in, out, *y));
      finite = finite && finite_of_constant(p, in, out);
      // Inputs of rms 300, whose squares add up to more than 65,504.
      const Seen large = p.pass_to(out, times(in, static_cast<float>(300 / std::max(1e-30, rms(*x)))));
      const Grid<float>* of = large.find(out);
      of_large.push_back(of ? rms(*of) / r.last : nan);
    }
  facts.add("norm_places", Json(places));
  facts.add("norm_exponent", exponents);
  facts.add("norm_eps_over_var", eps_over_var);
  facts.add("norm_gain_seen", gains);
  facts.add("norm_couples", Json(couples));
  facts.add("norm_of_constant_finite", finite);
  facts.add("norm_of_large", of_large);
  const std::string last = block_point(p.spec.n_layer - 1, ".out");
  facts.add("head_input_exponent", response(p, last, "final_norm", by).exponent);
  facts.add("logit_exponent", response(p, "final_norm", "logits", half ? 2 : 4).exponent);
}

}  // namespace plumb
