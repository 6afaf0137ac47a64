#include "plumb/interop/init_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plumb {
namespace {

constexpr double sigmas = 5, rounding = 0.01;

enum class Fan { none, in, average };

struct Way {
  Fan fan;
  bool scaled;
  std::string_view name;
};
constexpr Way ways[] = {{Fan::none, false, "one std"},
                        {Fan::none, true, "one std"},
                        {Fan::in, false, "std by fan-in"},
                        {Fan::in, true, "std by fan-in"},
                        {Fan::average, false, "std by both fans"},
                        {Fan::average, true, "std by both fans"}};

// std × factor would be the same number for all matrices.
double factor(const Way& way, const MatrixStats& m, std::int64_t n_layer) {
  const auto in = static_cast<double>(m.in), out = static_cast<double>(m.out);
  const double fan = way.fan == Fan::none ? 1 : way.fan == Fan::in ? in : in + out;
  return std::sqrt(fan * (way.scaled && m.writes_to_stream() ? 2.0 * static_cast<double>(n_layer) : 1.0));
}

bool is_drawn(const MatrixStats& m) { return m.layer >= 0 && m.part < Part::router && m.n() > 1; }

double tolerance(const MatrixStats& m) {
  return std::max(sigmas / std::sqrt(2.0 * static_cast<double>(m.n())), rounding);
}

bool fits(const Way& way, const std::vector<MatrixStats>& matrices, std::int64_t n_layer) {
  double squares = 0, n = 0;
  for (const MatrixStats& m : matrices) {
    const double scaled = m.std * factor(way, m, n_layer), count = static_cast<double>(m.n());
    squares += count * scaled * scaled;
    n += count;
  }
  const double common = std::sqrt(squares / n);
  return std::ranges::all_of(matrices, [&](const MatrixStats& m) {
    return std::abs(m.std * factor(way, m, n_layer) / common - 1) <= tolerance(m);
  });
}

// Root mean square over the elements of those matrices that write, or do not write, to the stream.
double pooled_std(const std::vector<MatrixStats>& matrices, bool writers) {
  double squares = 0, n = 0;
  for (const MatrixStats& m : matrices)
    if (m.writes_to_stream() == writers)
      squares += static_cast<double>(m.n()) * m.std * m.std, n += static_cast<double>(m.n());
  return n > 0 ? std::sqrt(squares / n) : 0;
}

}  // namespace

InitCheck check_init(const WeightStats& stats, std::int64_t n_layer) {
  using V = InitCheck::Verdict;
  std::vector<MatrixStats> matrices;
  for (const MatrixStats& m : stats.matrices)
    if (is_drawn(m)) matrices.push_back(m);
  // Output matrices that start at zero are a choice of their own: what else was drawn does not tell their
  // scale.
  if (const auto set = std::ranges::find_if(matrices, [](const MatrixStats& m) { return !(m.std > 0); });
      set != matrices.end())
    return {V::trained, set->tensor + " has std 0, so it was not drawn"};
  const double writers = pooled_std(matrices, true), others = pooled_std(matrices, false);
  if (n_layer < 1 || writers <= 0 || others <= 0)
    return {V::nothing, "there are no weights of attention and FFN to measure"};

  const std::string measured = fmt::format(
      "attention and FFN outputs have std {:.4g}, the other matrices {:.4g}: a ratio of {:.3f}, where "
      "1/sqrt(2 x {}) is {:.3f}",
      writers, others, writers / others, n_layer, 1 / std::sqrt(2.0 * static_cast<double>(n_layer)));
  const bool centred = std::ranges::all_of(matrices, [](const MatrixStats& m) {
    return std::abs(m.mean) <= sigmas * m.std / std::sqrt(static_cast<double>(m.n()));
  });
  std::string_view plain, scaled;
  for (const Way& way : ways)
    if (std::string_view& first = way.scaled ? scaled : plain;
        first.empty() && centred && fits(way, matrices, n_layer))
      first = way.name;
  if (!plain.empty() && !scaled.empty())
    return {V::both, measured + "; the matrices are too small to tell drawn with from drawn without"};
  if (!scaled.empty())
    return {V::scaled, fmt::format("{}; every matrix fits a fresh draw ({})", measured, scaled)};
  if (!plain.empty())
    return {V::plain, fmt::format("{}; every matrix fits a fresh draw ({})", measured, plain)};
  return {V::trained,
          measured + "; the matrices fit no fresh draw, so they were trained (or drawn in another way)"};
}

}  // namespace plumb
