// The residual path: what a sub-layer's output is made of.
//
// Of each sub-layer the stream behind it is fitted, by least squares over all elements, with the stream before it, its
// write, and what a norm makes of the one or of both:  after = a before + b write + c N(before)  or  … + d N(before + write).
// Plain addition gives (1, 1, 0, 0), a missing skip (0, 1, 0, 0), a skip behind the norm (0, 1, 1, 0), Post-LN
// (0, 0, 0, 1). Where these do not make up the stream, nothing is said.
#include <algorithm>
#include <cmath>
#include <limits>

#include "plumb/study/audit.h"
#include "plumb/tensor/rounding.h"

namespace plumb {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double largest_misfit = 0.02;  // of the stream's rms; what rounding and eps leave is far below
constexpr std::size_t most_terms = 4;

void add_to(Grid<float>& s, const Grid<float>& b) {
  for (std::size_t i = 0; i < s.data.size(); ++i) s.data[i] += b.data[i];
}

// Each row with mean 0 (LayerNorm) and root mean square 1.
Grid<float> normalised(const Grid<float>& x, bool centred) {
  Grid<float> y = x;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    float* row = y.data.data() + i * x.cols;
    double mean = 0, squares = 0;
    if (centred)
      for (std::int64_t j = 0; j < x.cols; ++j)
        mean += static_cast<double>(row[j]) / static_cast<double>(x.cols);
    for (std::int64_t j = 0; j < x.cols; ++j)
      squares += std::pow(static_cast<double>(row[j]) - mean, 2) / static_cast<double>(x.cols);
    const double by = squares > 0 ? 1 / std::sqrt(squares) : 0;
    for (std::int64_t j = 0; j < x.cols; ++j)
      row[j] = static_cast<float>((static_cast<double>(row[j]) - mean) * by);
  }
  return y;
}

double dot(const Grid<float>& a, const Grid<float>& b) {
  double s = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i)
    s += static_cast<double>(a.data[i]) * static_cast<double>(b.data[i]);
  return s;
}

// Solves A c = r by Gaussian elimination; terms that others make up already are left out (0).
using Row = std::array<double, most_terms + 1>;  // n coefficients, then the right side
std::array<double, most_terms> solved(std::array<Row, most_terms> a, std::size_t n) {
  std::array<double, most_terms> c{};
  std::array<bool, most_terms> used{};
  std::array<double, most_terms> scale{};
  for (std::size_t i = 0; i < n; ++i) scale[i] = a[i][i];
  for (std::size_t i = 0; i < n; ++i) {
    if (!(a[i][i] > 1e-5 * scale[i]) || scale[i] <= 0) continue;
    used[i] = true;
    for (std::size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double by = a[k][i] / a[i][i];
      for (std::size_t j = 0; j <= n; ++j) a[k][j] -= by * a[i][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i)
    if (used[i]) c[i] = a[i][n] / a[i][i];
  return c;
}

struct Fit {
  double skip = nan, normed_skip = nan, normed_sum = nan;
};

// The best of the sums of stream, writes and one normalised stream: of small writes N(x + w) is nearly N(x) + w / rms(x), so
// that the two norms cannot be told apart in one fit. Where branches are parallel each write is a term: one may be lost.
Fit fitted(const Grid<float>& before, const std::vector<const Grid<float>*>& writes,
           const Grid<float>& after) {
  Fit best;
  std::vector<const Grid<float>*> terms{&before};
  terms.insert(terms.end(), writes.begin(), writes.end());
  for (const Grid<float>* t : terms)
    if (t->data.size() != after.data.size()) return best;
  double least = largest_misfit * largest_misfit * dot(after, after);
  Grid<float> both = before;
  for (const Grid<float>* w : writes) add_to(both, *w);
  const std::size_t last = terms.size(), n = last + 1;
  for (const bool centred : {true, false})
    for (const bool of_sum : {false, true}) {
      const Grid<float> normed = normalised(of_sum ? both : before, centred);
      terms.resize(last);
      terms.push_back(&normed);
      std::array<Row, most_terms> a{};
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) a[i][j] = dot(*terms[i], *terms[j]);
        a[i][n] = dot(*terms[i], after);
      }
      const auto c = solved(a, n);
      double misfit = 0;
      for (std::size_t e = 0; e < after.data.size(); ++e) {
        double v = after.data[e];
        for (std::size_t i = 0; i < n; ++i) v -= c[i] * static_cast<double>(terms[i]->data[e]);
        misfit += v * v;
      }
      // Without a norm in the sum all four are the same, and the first is as good as any.
      if (misfit < least) least = misfit, best = {c[0], of_sum ? 0 : c[last], of_sum ? c[last] : 0};
    }
  return best;
}

double share(const Grid<float>& g, bool (*is)(float)) {
  std::int64_t n = 0;
  for (const float v : g.data) n += is(v);
  return g.data.empty() ? nan : static_cast<double>(n) / static_cast<double>(g.data.size());
}

}  // namespace

void audit_paths(Patient& p, FactSheet& facts) {
  const Seen s = p.pass(Mode::train);
  std::vector<double> skip, normed_skip, normed_sum;
  std::vector<double> narrow, zeros, write_over_branch, write_rms;
  const auto ratio = [](const Grid<float>* a, const Grid<float>* b) {
    return a && b && rms(*b) > 0 ? rms(*a) / rms(*b) : nan;
  };
  for (std::int64_t i = 0; i < p.spec.n_layer; ++i) {
    const auto at = [&](std::string_view end) { return s.find(block_point(i, end)); };
    const Grid<float>*in = at(".in"), *mid = at(".mid"), *out = at(".out"), *attn = at(".attn.write"),
          *ffn = at(".ffn.write");
    Fit a, f;
    if (in && out && attn && ffn && mid) {
      a = fitted(*in, {attn}, *mid), f = fitted(*mid, {ffn}, *out);
    } else if (in && out && attn && ffn) {
      a = f = fitted(*in, {attn, ffn}, *out);  // parallel
    }
    for (const Fit& one : {a, f})
      skip.push_back(one.skip), normed_skip.push_back(one.normed_skip), normed_sum.push_back(one.normed_sum);
    narrow.push_back(out ? share(*out, [](float v) { return to_bf16(v) == v; }) : nan);
    zeros.push_back(out ? share(*out, [](float v) { return v == 0; }) : nan);
    write_over_branch.push_back(ratio(attn, at(".attn.out")));
    write_over_branch.push_back(ratio(ffn, at(".ffn.out")));
    for (const Grid<float>* w : {attn, ffn}) write_rms.push_back(w ? rms(*w) : nan);
  }
  facts.add("path_skip", skip);
  facts.add("path_normed_skip", normed_skip);
  facts.add("path_normed_sum", normed_sum);
  facts.add("stream_in_bf16", narrow);
  facts.add("stream_zeros", zeros);
  facts.add("write_over_branch", write_over_branch);
  facts.add("write_rms", write_rms);
}

}  // namespace plumb
