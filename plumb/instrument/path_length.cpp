// By paths of what length does the gradient reach the first block?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plumb/base/rng.h"
#include "plumb/base/wrap.h"
#include "plumb/instrument/instrument.h"
#include "plumb/study/audit.h"
#include "plumb/study/path_plan.h"

namespace plumb {
namespace {

constexpr std::int64_t samples = 4;  // of a length that has more paths
// Two neighbouring lengths with less of the sum: the rest is left out. Sums over sets of products rise and then fall with
// the size of the sets (Newton's inequalities), and gradients too small for single precision take a minute.
constexpr double nothing = 1e-9;

// log C(n, k)
double log_paths(std::int64_t n, std::int64_t k) {
  const auto log_factorial = [](std::int64_t m) { return std::lgamma(static_cast<double>(m) + 1); };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

// k of n branches; every set of so many is as probable as any other.
std::vector<bool> drawn(const Stream& random, std::int64_t n, std::int64_t k, std::int64_t sample) {
  std::vector<std::size_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0u);
  std::vector<bool> through(order.size(), false);
  for (std::int64_t i = 0; i < k; ++i) {
    const auto u = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
    const auto at = static_cast<std::size_t>(
        i + static_cast<std::int64_t>(random.below(u(n - i), u(k), u(sample), u(i))));
    std::swap(order[static_cast<std::size_t>(i)], order[at]);
    through[order[static_cast<std::size_t>(i)]] = true;
  }
  return through;
}

// The sets to look at: all of them where they are few.
std::vector<std::vector<bool>> sets_of(const Stream& random, std::int64_t n, std::int64_t k) {
  std::vector<std::vector<bool>> sets;
  if (std::llround(std::exp(log_paths(n, k))) > samples) {
    for (std::int64_t s = 0; s < samples; ++s) sets.push_back(drawn(random, n, k, s));
    return sets;
  }
  std::vector<bool> through(static_cast<std::size_t>(n), false);
  std::fill_n(through.end() - k, k, true);
  do sets.push_back(through);
  while (std::next_permutation(through.begin(), through.end()));
  return sets;
}

struct Length {
  std::int64_t k = 0, sampled = 0;
  double norm = 0, share = 0, paths = 0;  // of the paths: of this length
};

double norm_of(const Grid<float>& g) { return rms(g) * std::sqrt(static_cast<double>(g.data.size())); }

// The fewest neighbouring lengths, the first of them, that hold so much.
std::pair<std::int64_t, std::int64_t> holding(const std::vector<Length>& all, double share) {
  const auto n = static_cast<std::int64_t>(all.size());
  for (std::int64_t width = 1; width < n; ++width)
    for (std::int64_t from = 0; from + width <= n; ++from) {
      double sum = 0;
      for (std::int64_t k = from; k < from + width; ++k) sum += all[static_cast<std::size_t>(k)].share;
      if (sum >= share) return {from, from + width - 1};
    }
  return {0, n - 1};
}

Reading path_length_read(Patient& p, const InstrumentOptions& o) {
  PathPlan plan(p);
  const std::int64_t n = plan.branches();
  const Stream random = stream(static_cast<std::uint64_t>(p.sick.train.seed), "path length");
  std::vector<Length> all;
  double sum = 0, mean = 0;
  for (std::int64_t k = 0, fallen = 0; k <= n && fallen < 2; ++k) {
    Length l{.k = k, .paths = std::exp(log_paths(n, k) - static_cast<double>(n) * std::log(2.0))};
    for (const std::vector<bool>& through : sets_of(random, n, k)) {
      stop_if_asked(o);
      l.norm += norm_of(plan.gradient(through)), ++l.sampled;
    }
    l.norm /= static_cast<double>(l.sampled);
    all.push_back(l);
    sum += l.paths * l.norm;
    fallen = l.paths * l.norm < nothing * sum ? fallen + 1 : 0;
  }
  for (Length& l : all) {
    l.share = l.paths * l.norm / sum;
    mean += static_cast<double>(l.k) * l.share;
  }
  const auto [from, to] = holding(all, 0.95);
  double paths = 0;
  for (std::int64_t k = from; k <= to; ++k) paths += all[static_cast<std::size_t>(k)].paths;
  const double whole = norm_of(plan.whole()), expected = static_cast<double>(n) / 2;

  Reading r{.text = fmt::format("{:>6}  {:>7}  {:>12}  {:>9}  {:>9}\n", "length", "sampled", "gradient",
                                "of paths", "share"),
            .json = Json::object()};
  Json rows = Json::array();
  for (const Length& l : all) {
    Json row = Json::object();
    row["length"] = l.k, row["sampled"] = l.sampled, row["grad_norm"] = l.norm, row["of_paths"] = l.paths,
    row["share"] = l.share;
    rows.push_back(row);
    const auto bar = std::isfinite(l.share) ? static_cast<std::size_t>(std::lround(40 * l.share)) : 0;
    r.text += fmt::format("{:>6}  {:>7}  {:>12}  {:>8.2f}%  {:>9} {}\n", l.k, l.sampled,
                          number_text(l.norm, "{:.4g}"), 100 * l.paths, number_text(100 * l.share, "{:.2f}%"),
                          std::string(bar, '#'));
  }
  if (const std::int64_t last = all.back().k; last < n)
    r.text += fmt::format("{:>6}  left out: {} and {} have less than a billionth\n",
                          fmt::format("> {}", last), last - 1, last);
  r.json["branches"] = n, r.json["lengths"] = rows, r.json["mean_length"] = mean;
  r.json["binomial_mean"] = expected, r.json["binomial_std"] = std::sqrt(static_cast<double>(n)) / 2;
  r.json["from"] = from, r.json["to"] = to, r.json["of_paths_between"] = paths, r.json["grad_norm"] = whole;
  r.text += wrapped(
      fmt::format(
          "mean length {} of {} branches; {} if a path's gradient did not depend on its length. 95 % lie on "
          "lengths {} to {}, which {:.2f} % of the paths have. The whole gradient's norm is {}.",
          number_text(mean, "{:.2f}"), n, expected, from, to, 100 * paths, number_text(whole, "{:.4g}")),
      o.width, 0);
  r.text += '\n';
  return r;
}

}  // namespace

namespace entries::instrument {
extern constexpr InstrumentEntry path_length = {
    .name = "path_length",
    .measures = "how much of the gradient reaches the first block by paths through so many branches",
    .how =
        "Backward, k of the residual branches are the only way on where they stand, the skip is at the "
        "others: one "
        "of the C(n, k) paths of length k. The mean norm at the first block's input over up to 4 such sets, "
        "times "
        "C(n, k), is the length's share (Veit, Wilber & Belongie 2016, arXiv 1605.06431, section 5). Norms "
        "of paths "
        "are added as if they pointed one way. To be held against the binomial mean n/2: a mean far below "
        "says that "
        "the model trains as an ensemble of shallow ones; all at n, that there is no way around. Auxiliary "
        "losses are "
        "left out, and norms behind an addition are on every path.",
    .read = path_length_read,
};
}  // namespace entries::instrument

}  // namespace plumb
