#include "plumb/interop/init_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

namespace plumb {
namespace {

constexpr double sigmas = 5, rounding = 0.01;

enum class Fan { none, in, out, average, fused };

struct Way {
  Fan fan;
  std::string_view name;
  std::array<double, 3> usual;  // std × √fan of the usual ways to draw so; 0: none
};
const double of_linear = 1 / std::sqrt(3.0), of_he = std::sqrt(2.0);  // torch.nn.Linear; He et al. and Xavier
const Way ways[] = {{Fan::none, "one std", {}},
                    {Fan::in, "std by fan-in", {of_linear, 1, of_he}},
                    {Fan::average, "std by both fans", {of_he}},
                    {Fan::fused, "std by both fans as they are stored", {of_he}},
                    {Fan::out, "std by fan-out as it is stored", {of_linear, 1, of_he}}};

// A matrix with the fan-out that it is stored with: q, k and v of a fused matrix were drawn together.
struct Drawn {
  MatrixStats m;
  std::int64_t stored_out = 0;
};

std::vector<Drawn> drawn_of(const WeightStats& stats) {
  std::map<std::string_view, std::int64_t> stored;
  for (const MatrixStats& m : stats.matrices) stored[m.tensor] += m.out;
  std::vector<Drawn> all;
  for (const MatrixStats& m : stats.matrices)
    if (m.layer >= 0 && m.part < Part::router && m.n() > 1) all.push_back({m, stored[m.tensor]});
  return all;
}

// std × factor would be the same number for all matrices.
double factor(Fan fan, const Drawn& d) {
  const auto in = static_cast<double>(d.m.in), out = static_cast<double>(d.m.out),
             stored = static_cast<double>(d.stored_out);
  switch (fan) {
    case Fan::none:
      return 1;
    case Fan::in:
      return std::sqrt(in);
    case Fan::out:
      return std::sqrt(stored);
    case Fan::average:
      return std::sqrt(in + out);
    case Fan::fused:
      return std::sqrt(in + stored);
  }
  return 1;
}

double tolerance(const MatrixStats& m) {
  return std::max(sigmas / std::sqrt(2.0 * static_cast<double>(m.n())), rounding);
}

// Which matrices a way is tried on.
enum class Of { all, writers, others };

bool is_of(Of of, const Drawn& d) { return of == Of::all || (of == Of::writers) == d.m.writes_to_stream(); }

// The one number std × factor, where every matrix fits it; what writes to the stream counts `boost` times.
std::optional<double> common(Fan fan, const std::vector<Drawn>& matrices, Of of, double boost) {
  const auto number = [&](const Drawn& d) {
    return d.m.std * factor(fan, d) * (d.m.writes_to_stream() ? boost : 1);
  };
  double squares = 0, n = 0;
  for (const Drawn& d : matrices)
    if (is_of(of, d))
      squares += static_cast<double>(d.m.n()) * number(d) * number(d), n += static_cast<double>(d.m.n());
  const double one = std::sqrt(squares / n);
  const bool fits = std::ranges::all_of(matrices, [&](const Drawn& d) {
    return !is_of(of, d) ||
           (std::abs(number(d) / one - 1) <= tolerance(d.m) &&
            std::abs(d.m.mean) <= sigmas * d.m.std / std::sqrt(static_cast<double>(d.m.n())));
  });
  return fits ? std::optional(one) : std::nullopt;
}

// Root mean square over the elements of those matrices that write, or do not write, to the stream.
double pooled_std(const std::vector<Drawn>& matrices, Of of) {
  double squares = 0, n = 0;
  for (const Drawn& d : matrices)
    if (is_of(of, d))
      squares += static_cast<double>(d.m.n()) * d.m.std * d.m.std, n += static_cast<double>(d.m.n());
  return n > 0 ? std::sqrt(squares / n) : 0;
}

bool has_several_fans(Fan fan, const std::vector<Drawn>& matrices) {
  double least = HUGE_VAL, most = 0;
  for (const Drawn& d : matrices)
    if (d.m.writes_to_stream())
      least = std::min(least, factor(fan, d)), most = std::max(most, factor(fan, d));
  return most > 1.1 * least;
}

// The other matrices look drawn, and what writes to the stream was not drawn with them. If it was drawn by a
// usual way of its own, that has a std of its own, with 1/√(2·n_layer) and without.
InitCheck of_own_way(const std::vector<Drawn>& matrices, double depth, const std::string& measured) {
  using V = InitCheck::Verdict;
  bool drawn = false, plain = false, scaled = false;
  std::string_view name;
  double n = 0;
  for (const Drawn& d : matrices)
    if (d.m.writes_to_stream()) n += static_cast<double>(d.m.n());
  const double error = std::max(sigmas / std::sqrt(2 * n), rounding);  // of a number common to all of them
  for (const Way& way : ways) {
    const auto one = common(way.fan, matrices, Of::writers, 1);
    if (!one) continue;
    drawn = true;
    // Where all have one fan, any std would do for a way by fans.
    if (!has_several_fans(way.fan, matrices)) continue;
    for (const double usual : way.usual) {
      if (usual <= 0) continue;
      const bool with = std::abs(*one * depth / usual - 1) <= error,
                 without = std::abs(*one / usual - 1) <= error;
      if ((with || without) && name.empty()) name = way.name;
      scaled = scaled || with;
      plain = plain || without;
    }
  }
  if (!drawn)
    return {V::other,
            measured + "; the other matrices look drawn, but the outputs fit no way of drawing all of them"};
  const std::string own = measured + "; every matrix looks drawn, but the outputs by a way of their own";
  if (plain != scaled)
    return {plain ? V::plain : V::scaled,
            fmt::format("{} ({}), {} 1/sqrt(2 n_layer)", own, name, plain ? "without" : "with")};
  return {V::other, own + ", which says neither that 1/sqrt(2 n_layer) was used nor that it was not"};
}

}  // namespace

InitCheck check_init(const WeightStats& stats, std::int64_t n_layer) {
  using V = InitCheck::Verdict;
  const std::vector<Drawn> matrices = drawn_of(stats);
  // Output matrices that start at zero are a choice of their own: what else was drawn does not tell their
  // scale.
  const auto zero = [](const Drawn& d) { return !(d.m.std > 0); };
  auto set =
      std::ranges::find_if(matrices, [&](const Drawn& d) { return zero(d) && d.m.writes_to_stream(); });
  const bool writer = set != matrices.end();
  if (!writer) set = std::ranges::find_if(matrices, zero);
  if (set != matrices.end())
    return {writer ? V::set : V::trained, set->m.tensor + " has std 0, so it was not drawn"};
  const double writers = pooled_std(matrices, Of::writers), others = pooled_std(matrices, Of::others);
  if (n_layer < 1 || writers <= 0 || others <= 0)
    return {V::nothing, "there are no weights of attention and FFN to measure"};

  const double depth = std::sqrt(2.0 * static_cast<double>(n_layer));
  const std::string measured = fmt::format(
      "attention and FFN outputs have std {:.4g}, the other matrices {:.4g}: a ratio of {:.3f}, where "
      "1/sqrt(2 x {}) is {:.3f}",
      writers, others, writers / others, n_layer, 1 / depth);
  std::string_view plain, scaled;
  bool others_drawn = false;
  for (const Way& way : ways) {
    if (plain.empty() && common(way.fan, matrices, Of::all, 1)) plain = way.name;
    if (scaled.empty() && common(way.fan, matrices, Of::all, depth)) scaled = way.name;
    others_drawn = others_drawn || common(way.fan, matrices, Of::others, 1);
  }
  if (!plain.empty() && !scaled.empty())
    return {V::both, measured + "; the matrices are too small to tell drawn with from drawn without"};
  if (!scaled.empty())
    return {V::scaled, fmt::format("{}; every matrix fits a fresh draw ({})", measured, scaled)};
  if (!plain.empty())
    return {V::plain, fmt::format("{}; every matrix fits a fresh draw ({})", measured, plain)};
  if (others_drawn) return of_own_way(matrices, depth, measured);
  return {V::trained,
          measured + "; the matrices fit no fresh draw, so they were trained (or drawn in another way)"};
}

}  // namespace plumb
